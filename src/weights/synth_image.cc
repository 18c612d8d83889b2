// Tensors of random numbers, laid out as a backend reads them.
#include "weights/synth_image.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/cores.h"
#include "weights/anonymous.h"
#include "weights/floats.h"
#include "weights/interleave.h"
#include "weights/synth_config.h"
#include "weights/synth_values.h"

namespace lily {
namespace {

constexpr std::int64_t kPieceRows = 64 * kBlockRows;  // Of a matrix, made at a time by one thread.

std::uint64_t part_offset(const QuantExtent& extent, SynthPart part) {
  return part == SynthPart::kScales ? extent.scales : part == SynthPart::kBiases ? extent.biases : 0;
}

// Rows [begin, end) of a part of a matrix.
struct Rows {
  std::int64_t begin, end;
};

std::size_t row_bytes(const SynthTensor& part, const ManifestEntry& entry) {
  return part.bytes / static_cast<std::size_t>(entry.rows);
}

class Maker {
 public:
  Maker(const std::vector<ManifestEntry>& entries, const ImageHeader& header, std::uint64_t seed, std::byte* data)
      : entries_(entries), header_(header), seed_(seed), data_(data) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      for (std::int64_t row = 0; row < entries[i].rows; row += kPieceRows) {
        pieces_.push_back({i, {row, std::min(entries[i].rows, row + kPieceRows)}});
      }
    }
  }

  // Pieces that nobody has taken, until there are none.
  void work() {
    for (;;) {
      const std::size_t next = next_.fetch_add(1, std::memory_order_relaxed);
      if (next >= pieces_.size()) return;
      make(pieces_[next]);
    }
  }

 private:
  struct Piece {
    std::size_t tensor;
    Rows rows;
  };

  void make(const Piece& piece) const {
    const ManifestEntry& entry = entries_[piece.tensor];
    const auto parts = synth_tensors(entry);
    std::byte* const at = data_ + header_.tensors[piece.tensor].offset;
    if (!entry.quantised()) return floats(parts[0], entry, piece.rows, at);
    if (header_.layout == WeightLayout::kInterleaved16) return interleaved(parts, entry, piece.rows, at);
    const auto extent = quant_extent(header_.layout, {entry.rows, entry.cols, entry.bits});
    for (const SynthTensor& part : parts) fill(part, entry, piece.rows, at + part_offset(extent, part.part) +
                                                static_cast<std::size_t>(piece.rows.begin) * row_bytes(part, entry));
  }
  void fill(const SynthTensor& part, const ManifestEntry& entry, Rows rows, std::byte* to) const {
    const std::size_t bytes = row_bytes(part, entry);
    synth_fill(part, seed_, static_cast<std::uint64_t>(rows.begin) * bytes,
               {to, static_cast<std::size_t>(rows.end - rows.begin) * bytes});
  }
  void floats(const SynthTensor& part, const ManifestEntry& entry, Rows rows, std::byte* to) const {
    std::vector<std::byte> source(static_cast<std::size_t>(rows.end - rows.begin) * row_bytes(part, entry));
    fill(part, entry, rows, source.data());
    const auto values = to_floats(source, "BF16");
    std::memcpy(to + static_cast<std::size_t>(rows.begin * entry.cols) * sizeof(float), values.data(), values.size() * sizeof(float));
  }
  void interleaved(const std::vector<SynthTensor>& parts, const ManifestEntry& entry, Rows rows, std::byte* to) const {
    std::vector<std::byte> source[3];
    for (std::size_t i = 0; i < 3; ++i) {
      source[i].resize(static_cast<std::size_t>(rows.end - rows.begin) * row_bytes(parts[i], entry));
      fill(parts[i], entry, rows, source[i].data());
    }
    const auto cols = static_cast<std::size_t>(entry.cols);
    const std::size_t block_bytes = cols / kQuantGroup * record_bytes(entry.bits);
    for (std::int64_t row = rows.begin; row < rows.end; row += kBlockRows) {
      const auto skip = static_cast<std::size_t>(row - rows.begin);
      interleave_block({source[0].data() + skip * row_bytes(parts[0], entry), source[1].data() + skip * row_bytes(parts[1], entry),
                        source[2].data() + skip * row_bytes(parts[2], entry),
                        static_cast<std::size_t>(std::min<std::int64_t>(kBlockRows, rows.end - row)), cols, entry.bits},
                       to + static_cast<std::size_t>(row / kBlockRows) * block_bytes);
    }
  }

  const std::vector<ManifestEntry>& entries_;
  const ImageHeader& header_;
  std::uint64_t seed_;
  std::byte* data_;
  std::vector<Piece> pieces_;
  std::atomic<std::size_t> next_{0};
};

// On every core; where the system refuses a thread, on those that there are.
void run_on_all_cores(Maker& maker) {
  std::vector<std::thread> threads;
  try {
    for (int i = 1; i < usable_cores(); ++i) threads.emplace_back([&] { maker.work(); });
  } catch (const std::system_error&) {
    // This thread does the rest.
  }
  maker.work();
  for (auto& thread : threads) thread.join();
}

}  // namespace

Result<LoadedWeights> synthetic_weights(const ModelSpec& spec, WeightLayout layout, std::uint64_t seed) {
  LILY_TRY(auto config, parse_config(synthetic_config(spec), synthetic_generation_config(spec)));
  const auto entries = manifest(config);
  ImageHeader header = plan_image(entries, layout, 0);
  LILY_TRY(auto owner, anonymous_memory(header.data_bytes));
  auto* const data = static_cast<std::byte*>(owner.get());
  Maker maker(entries, header, seed, data);
  run_on_all_cores(maker);
  header.blocks_done = header.block_sums.size();
  const std::span<const std::byte> bytes(data, header.data_bytes);
  return LoadedWeights{std::move(config), WeightImage(std::move(header), bytes, std::move(owner)), {}, true};
}

}  // namespace lily
