// attention_prepare: a task is a few rows of a segment; the angles of a row are computed once for
// all its heads.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kv_pages.h"
#include "backend/cpu/precise.h"
#include "backend/cpu/row_tiles.h"

namespace lily::cpu {
namespace {

constexpr int kTileRows = 16;  // Keys of sixteen positions share cache lines.
constexpr int kPairs = kRotaryDims / 2;

struct Turn {
  float cosines[kPairs], sines[kPairs];
};

// The angle is a product in double; its sine and cosine are rounded to float once.
Turn turn_at(const AttentionPrepareArgs& args, std::int64_t position) {
  Turn turn;
  const auto magnitude = static_cast<double>(args.rope_magnitude);
  for (int i = 0; i < kPairs; ++i) {
    const SinCos at = sin_cos(static_cast<double>(position) * args.rope_frequencies[i]);
    turn.cosines[i] = static_cast<float>(at.cosine * magnitude);
    turn.sines[i] = static_cast<float>(at.sine * magnitude);
  }
  return turn;
}

void prepare_queries(const Kernels& kernels, const AttentionPrepareArgs& args, std::int64_t row,
                     const Turn& turn) {
  constexpr float kScale = 1.0f / 16.0f;  // kHeadDim^-0.5
  static_assert(kHeadDim == 256);
  for (std::int64_t i = row * args.n_q_heads; i < (row + 1) * args.n_q_heads; ++i) {
    kernels.attention.norm_and_turn(args.q_gate + i * 2 * kHeadDim, args.q_norm, turn.cosines,
                                    turn.sines, kScale, args.eps, args.q + i * kHeadDim);
  }
}

void append(const Kernels& kernels, const AttentionPrepareArgs& args, const Segment& segment,
            std::int64_t row, const Turn& turn) {
  const std::int64_t position = segment.position + row - segment.first_row;
  for (std::int64_t head = 0; head < args.kv.n_kv_heads; ++head) {
    const std::int64_t from = (row * args.kv.n_kv_heads + head) * kHeadDim;
    float key[kHeadDim];
    kernels.attention.norm_and_turn(args.k + from, args.k_norm, turn.cosines, turn.sines, 1.0f,
                                    args.eps, key);
    std::uint16_t narrow[kHeadDim];
    kernels.math.to_bf16(key, narrow, kHeadDim);
    store_key(args.kv, segment.sequence, position, head, narrow);
    kernels.math.to_bf16(args.v + from, value_row(args.kv, segment.sequence, position, head),
                         kHeadDim);
  }
}

}  // namespace

void CpuBackend::attention_prepare(const AttentionPrepareArgs& args) {
  const RowTiles tiles(*args.control, kTileRows);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task) {
    const RowTile tile = tiles.at(task);
    for (std::int64_t i = tile.first; i < tile.first + tile.n_rows; ++i) {
      const Turn turn = turn_at(args, tile.segment->position + i);
      prepare_queries(kernels_, args, tile.segment->first_row + i, turn);
      append(kernels_, args, *tile.segment, tile.segment->first_row + i, turn);
    }
  });
}

}  // namespace lily::cpu
