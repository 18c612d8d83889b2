// The experts of many rows on the tile layer: blocks of up to 32 rows that chose the same expert
// (experts_sort), and blocks of 32 rows for the shared one, in one grid.
#include "backend/gpu/kernels/experts_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/pass.h"
#include "backend/gpu/kernels/tile_block.h"

// n rows of one expert, those from `first` on: of the sorted slots, or of the pass for the shared
// expert.
struct ExpertBlock {
  uint expert, first, n;
  bool shared;
};

struct ExpertsTileShared {
  TileBlock block;
  uint slots[32];  // Row of the output behind each of the 32.
};

// Block `index` of the grid. The sort wrote n_rows * K / 32 + E blocks.
FN void expert_block(DEV const uint* blocks, uint index, uint n_blocks, uint n_rows, uint n_experts,
                     uint n_chosen, THR ExpertBlock& b) {
  b.expert = b.first = b.n = 0;
  b.shared = index >= n_blocks;
  if (b.shared) {
    b.first = (index - n_blocks) * kTileX;
    b.n = n_rows > b.first ? u_min(n_rows - b.first, kTileX) : 0u;
  } else if (index < n_rows * n_chosen / kTileX + n_experts) {
    b.expert = blocks[3 * index];
    b.first = blocks[3 * index + 1];
    b.n = blocks[3 * index + 2];
  }
}

// Fills sm.slots and sm.block.rows, which are slots / per_row: per_row is K where the input has a
// row per token, 1 where it has one per slot. Rows past the block's repeat its last.
FN void expert_rows(TG ExpertsTileShared& sm, const THR ExpertBlock& b, DEV const uint* slots,
                    uint per_row, const THR Ids& id) {
  if (id.tid < kTileX) {
    const uint place = b.first + u_min(id.tid, b.n - 1);
    const uint slot = b.shared ? place : slots[place];
    sm.slots[id.tid] = slot;
    sm.block.rows[id.tid] = b.shared ? slot : slot / per_row;
  }
  group_barrier();
}

// act = silu(x gate^T) * (x up^T): 32 columns a group, the tile's other 32 weight rows are of up.
// Grid: x ceil(larger width / 32), y n_blocks, then ceil(T / 32); groups of 128 threads.
// Traffic: gate and up once per block; the block's rows of x once per 32 columns.
KERNEL(experts_tile_up, ExpertsUpParams, ExpertsTileShared, 128) {
  ExpertBlock b;
  expert_block(a.blocks, id.group.y, a.n_blocks, pass_rows(a.control), a.n_experts, a.n_chosen, b);
  const uint width = b.shared ? a.shared_width : a.width, row0 = id.group.x * 32;
  if (b.n > 0 && row0 < width) {
    expert_rows(sm, b, a.slots, a.n_chosen, id);
    CON ExpertMatrix& gate = b.shared ? a.shared_gate : a.gate;
    const ulong first = (ulong)b.expert * width;
    const ulong last = first + width - 1;
    CON ExpertMatrix& up = b.shared ? a.shared_up : a.up;
    const TileHalf low = {gate.codes, gate.scales, gate.biases, first + row0, last, gate.bits};
    const TileHalf high = {up.codes, up.scales, up.biases, first + row0, last, up.bits};
    tile_product<false>(sm.block, low, high, gate.cols, a.x, a.x, 0.0f, id);
    DEV float* act = b.shared ? a.shared_act : a.act;
    for (uint i = id.tid; i < kTileX * 32; i += kTileThreads) {
      const uint t = i / 32, r = i % 32;
      TG const float* out = sm.block.out + t * kTileOutLd + r;
      if (t < b.n && row0 + r < width)
        act[(ulong)sm.slots[t] * width + row0 + r] = m_silu(out[0]) * out[32];
    }
  }
}

// out = act down^T, bf16, a row per slot; the shared expert's from row shared_at on.
// Grid: x ceil(D / 64), y n_blocks, then ceil(T / 32); groups of 128 threads.
// Traffic: down once per block; the block's rows of act once per 64 outputs.
KERNEL(experts_tile_down, ExpertsDownParams, ExpertsTileShared, 128) {
  ExpertBlock b;
  expert_block(a.blocks, id.group.y, a.n_blocks, pass_rows(a.control), a.n_experts, a.n_chosen, b);
  const uint row0 = id.group.x * kTileW;
  if (b.n > 0) {
    expert_rows(sm, b, a.slots, 1, id);
    CON ExpertMatrix& down = b.shared ? a.shared_down : a.down;
    const ulong first = (ulong)b.expert * a.hidden;
    const ulong last = first + a.hidden - 1;
    const TileHalf low = {down.codes, down.scales, down.biases, first + row0, last, down.bits};
    const TileHalf high = {down.codes,        down.scales, down.biases,
                           first + row0 + 32, last,        down.bits};
    DEV const float* act = b.shared ? a.shared_act : a.act;
    tile_product<false>(sm.block, low, high, down.cols, act, act, 0.0f, id);
    for (uint i = id.tid; i < kTileX * kTileW / 2; i += kTileThreads) {
      const uint t = i / (kTileW / 2), r = i % (kTileW / 2) * 2;
      TG const float* out = sm.block.out + t * kTileOutLd + r;
      if (t < b.n && row0 + r < a.hidden) {
        const ulong row = (b.shared ? a.shared_at : 0u) + sm.slots[t];
        ((DEV uint*)a.out)[(row * a.hidden + row0 + r) / 2] = bf16_pair(out[0], out[1]);
      }
    }
  }
}
