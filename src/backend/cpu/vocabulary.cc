// Log-sums and ranks of rows of logits.
#include "backend/cpu/vocabulary.h"

#include <algorithm>
#include <limits>

#include "backend/cpu/precise.h"
#include "backend/cpu/sort_key.h"

namespace lily::cpu {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr std::int64_t kSortAhead = 64;

}  // namespace

LogitRows logit_rows(const PassControl& control, const float* logits, std::int32_t first,
                     std::int32_t vocab_rows, std::int32_t vocab_used) {
  return {logits, vocab_rows, vocab_used,
          std::clamp(control.n_head_rows - first, 0, kHeadBlockRows)};
}

std::span<const float> chunk_of(std::span<const float> row, std::int64_t index) {
  const auto first = static_cast<std::size_t>(index) * kVocabularyChunk;
  return row.subspan(first, std::min<std::size_t>(kVocabularyChunk, row.size() - first));
}

RowSummary summarise(const Kernels& kernels, std::span<const ChunkStats> chunks) {
  RowSummary all{.largest = -kInfinity, .best = 0, .finite = true, .log_sum = 0.0};
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    all.finite = all.finite && chunks[i].finite != 0;
    if (!(chunks[i].largest > all.largest)) continue;
    all.largest = chunks[i].largest;
    all.best = static_cast<std::int32_t>(i) * kVocabularyChunk + chunks[i].at;
  }
  double sum = 0.0;
  for (const auto& chunk : chunks) {
    float factor = chunk.largest - all.largest;
    kernels.math.exp(&factor, &factor, 1);
    sum += static_cast<double>(chunk.sum) * static_cast<double>(factor);
  }
  all.log_sum = static_cast<double>(all.largest) + natural_log(sum);
  return all;
}

Ranking::Ranking(const Kernels& kernels, std::span<const float> row, float largest, float step,
                 std::span<std::uint64_t> keys)
    : kernels_(kernels),
      row_(row),
      largest_(largest),
      depth_(step),
      high_(kInfinity),
      keys_(keys) {}

// -infinity is no entry: the lowest bound is the lowest finite number.
void Ranking::collect_more() {
  float low = largest_ - depth_;
  if (!(low < high_)) low = kLowest;  // The step is too small to show next to the largest.
  low = std::max(low, kLowest);
  collected_ += kernels_.vocabulary.collect({.x = row_.data(),
                                             .n = static_cast<std::int64_t>(row_.size()),
                                             .low = low,
                                             .high = high_,
                                             .first_id = 0,
                                             .keys = keys_.data() + collected_});
  high_ = low;
  depth_ *= 4.0f;
}

// Entries past `sorted_` all rank behind those before it; so do later collections.
void Ranking::sort_until(std::int64_t rank) {
  const std::int64_t end = std::min(collected_, std::max(rank + kSortAhead, 2 * rank));
  const auto begin = keys_.begin() + sorted_, stop = keys_.begin() + end,
             all = keys_.begin() + collected_;
  if (stop != all) std::nth_element(begin, stop, all);
  std::sort(begin, stop);
  sorted_ = end;
}

bool Ranking::has(std::int64_t rank) {
  while (rank >= collected_ && high_ > kLowest) collect_more();
  if (rank >= collected_) return false;
  if (rank >= sorted_) sort_until(rank);
  return true;
}

std::int32_t Ranking::id(std::int64_t rank) const {
  return id_of(keys_[static_cast<std::size_t>(rank)]);
}
float Ranking::logit(std::int64_t rank) const {
  return logit_of(keys_[static_cast<std::size_t>(rank)]);
}

}  // namespace lily::cpu
