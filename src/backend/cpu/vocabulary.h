// One row of logits as a distribution, for score and choose: summed over fixed chunks in their
// order, so the threads do not matter.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "backend/args.h"
#include "backend/cpu/kernels.h"

namespace lily::cpu {

// The head rows first .. first + n of a pass.
struct LogitRows {
  const float* logits;  // [n, stride]
  std::int64_t stride, vocab, n;
  std::span<const float> row(std::int64_t i) const {
    return {logits + i * stride, static_cast<std::size_t>(vocab)};
  }
};
LogitRows logit_rows(const PassControl& control, const float* logits, std::int32_t first,
                     std::int32_t vocab_rows, std::int32_t vocab_used);

constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr std::int64_t n_chunks(std::int64_t vocab) {
  return (vocab + kVocabularyChunk - 1) / kVocabularyChunk;
}

// Chunk `index` of a row.
std::span<const float> chunk_of(std::span<const float> row, std::int64_t index);

struct RowSummary {
  float largest;
  std::int32_t best;  // Id of the largest, the lowest on a tie
  bool finite;
  double log_sum;  // log(sum of exp(x))
};
RowSummary summarise(const Kernels& kernels, std::span<const ChunkStats> chunks);

// The finite entries of a row in descending order, equal ones by ascending id, sorted as far as
// they are asked for. Entries are collected within widening bounds below the largest, so most of a
// row is never sorted.
class Ranking {
 public:
  // keys: room for every entry of the row. `step`: the first bound lies this far below the largest.
  Ranking(const Kernels& kernels, std::span<const float> row, float largest, float step,
          std::span<std::uint64_t> keys);

  // Whether there is an entry of this rank (0: the largest).
  bool has(std::int64_t rank);
  // Of a rank that has() said is there.
  std::int32_t id(std::int64_t rank) const;
  float logit(std::int64_t rank) const;

 private:
  void collect_more();
  void sort_until(std::int64_t rank);

  const Kernels& kernels_;
  std::span<const float> row_;
  float largest_;
  float depth_;  // Next bound, below the largest
  float high_;   // Entries from here up are collected
  std::span<std::uint64_t> keys_;
  std::int64_t collected_ = 0, sorted_ = 0;
};

}  // namespace lily::cpu
