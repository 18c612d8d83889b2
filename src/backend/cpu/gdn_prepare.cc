// gdn_prepare: a task is a tile of rows of one segment and a head's 128 channels of q, k or v; one
// more a tile makes the gates. The first tile of a segment alone reads its window and then writes
// the new one, so both may be the same slot.
#include <cmath>
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/row_tiles.h"

namespace lily::cpu {
namespace {

constexpr int kGdnTileRows = 64;
constexpr int kWindowRows = kConvTaps - 1;
constexpr std::size_t kRowBytes = kDeltaDim * sizeof(float);

// One head's channels: where they begin in a row of qkv, and where the result goes.
struct Block {
  std::int64_t channel;
  float* out;
  std::int64_t out_stride;
  float scale;
};

std::int64_t channels(const GdnPrepareArgs& args) {
  return (2 * std::int64_t{args.n_key_heads} + args.n_value_heads) * kDeltaDim;
}

Block block_of(const GdnPrepareArgs& args, std::int64_t index) {
  const std::int64_t n_keys = args.n_key_heads, channel = index * kDeltaDim;
  const std::int64_t key_dim = n_keys * kDeltaDim;
  if (index < n_keys) return {channel, args.q + channel, key_dim, 1.0f / kDeltaDim};
  if (index < 2 * n_keys) return {channel, args.k + channel - key_dim, key_dim, 0.08838834764f};
  return {channel, args.v + channel - 2 * key_dim, args.n_value_heads * std::int64_t{kDeltaDim},
          0.0f};
}

// The window [3, C] of a slot at a channel.
float* window_at(const GdnPrepareArgs& args, std::int64_t slot, std::int64_t channel) {
  auto* const window = args.state.base + slot * args.state.slot_bytes + args.state.conv_offset;
  return reinterpret_cast<float*>(window) + channel;
}

// Writes the window that lies behind `row` rows of the segment: input rows row - 3 .. row - 1, the
// older of them from `before`.
void save_window(const GdnPrepareArgs& args, const Segment& segment, const Block& block,
                 const float* before, std::int64_t row, std::int64_t slot) {
  const std::int64_t stride = channels(args);
  float* const to = window_at(args, slot, block.channel);
  for (std::int64_t j = 0; j < kWindowRows; ++j) {
    const std::int64_t source = row - kWindowRows + j;
    const float* const from =
        source < 0 ? before + (source + kWindowRows) * kDeltaDim
                   : args.qkv + (segment.first_row + source) * stride + block.channel;
    std::memcpy(to + j * stride, from, kRowBytes);
  }
}

// The three rows before the segment, [3, 128].
void load_window(const GdnPrepareArgs& args, const Segment& segment, const Block& block,
                 float* before) {
  std::memset(before, 0, kWindowRows * kRowBytes);
  if (segment.state_in < 0) return;
  const float* const window = window_at(args, segment.state_in, block.channel);
  for (int j = 0; j < kWindowRows; ++j) {
    std::memcpy(before + j * kDeltaDim, window + j * channels(args), kRowBytes);
  }
}

void prepare_block(const Kernels& kernels, const GdnPrepareArgs& args, const RowTile& tile,
                   const Block& block) {
  const Segment& segment = *tile.segment;
  const std::int64_t stride = channels(args), row = segment.first_row + tile.first;
  const float* const in = args.qkv + row * stride + block.channel;
  float before[kWindowRows * kDeltaDim];
  if (tile.first == 0) load_window(args, segment, block, before);
  kernels.gdn.convolve({.before = tile.first == 0 ? before : in - kWindowRows * stride,
                        .before_stride = tile.first == 0 ? kDeltaDim : stride,
                        .in = in,
                        .in_stride = stride,
                        .n_rows = tile.n_rows,
                        .weight = args.conv_weight + block.channel * kConvTaps,
                        .out = block.out + row * block.out_stride,
                        .out_stride = block.out_stride,
                        .scale = block.scale,
                        .eps = args.eps});
  if (segment.snapshots >= 0) {
    for (std::int64_t i = tile.first; i < tile.first + tile.n_rows; ++i) {
      save_window(args, segment, block, before, i + 1, segment.snapshots + i);
    }
  }
  if (tile.first == 0) save_window(args, segment, block, before, segment.n_rows, segment.state_out);
}

void prepare_gates(const Kernels& kernels, const GdnPrepareArgs& args, const RowTile& tile) {
  const std::int64_t n_heads = args.n_value_heads;
  for (std::int64_t i = 0; i < tile.n_rows; ++i) {
    const std::int64_t at = (tile.segment->first_row + tile.first + i) * n_heads;
    kernels.gdn.gates({.a = args.a + at,
                       .b = args.b + at,
                       .a_log = args.a_log,
                       .dt_bias = args.dt_bias,
                       .decay = args.decay + at,
                       .beta = args.beta + at,
                       .n_heads = n_heads});
  }
}

}  // namespace

void CpuBackend::gdn_prepare(const GdnPrepareArgs& args) {
  const RowTiles tiles(*args.control, kGdnTileRows);
  const std::int64_t n_blocks = channels(args) / kDeltaDim;
  pool_.parallel_for(tiles.count() * (n_blocks + 1), [&](std::int64_t task) {
    const RowTile tile = tiles.at(task / (n_blocks + 1));
    const std::int64_t block = task % (n_blocks + 1);
    if (block == n_blocks) return prepare_gates(kernels_, args, tile);
    prepare_block(kernels_, args, tile, block_of(args, block));
  });
}

}  // namespace lily::cpu
