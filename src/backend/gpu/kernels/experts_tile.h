// The experts of many rows on the tile layer: blocks of rows that chose the same expert
// (experts_sort) and blocks of the pass's rows for the shared one, in one grid. The bodies of the
// kernels in experts_tile.cc and experts_tile_large.cc. Included after dialect.h.
//
// How high a tile a block takes is seen on the device, in the number of its rows: up to kShort take
// kShort, others twice that. kUnit: columns that a group of the grid stands for; a shape that is
// two of them wide leaves the second group idle.
#pragma once

#include "backend/gpu/kernels/pass.h"
#include "backend/gpu/kernels/tile_block.h"

// n rows of one expert, those from `first` on: of the sorted slots, or of the pass for the shared
// expert.
struct ExpertBlock {
  uint expert, first, n;  // expert: from the first that the launch has
  bool shared;
};

template <uint kArea, uint kRows>
struct ExpertsTileShared {
  uint4 area[kArea];
  uint rows[kRows];   // Row of the input behind each of the block's,
  uint slots[kRows];  // and of the output.
};

// Block `index` of the grid. The sort wrote n_rows * K / block_rows + E blocks.
FN void expert_block(CON ExpertBlocks& all, uint index, uint n_rows, uint n_experts, uint n_chosen,
                     THR ExpertBlock& b) {
  b.expert = b.first = b.n = 0;
  b.shared = index >= all.n_blocks;
  if (b.shared) {
    b.first = (index - all.n_blocks) * all.block_rows;
    b.n = n_rows > b.first ? u_min(n_rows - b.first, all.block_rows) : 0u;
  } else if (index < n_rows * n_chosen / all.block_rows + n_experts) {
    const uint expert = all.blocks[3 * index];
    const bool here = expert >= all.first_expert && expert < all.end_expert;
    b.expert = expert - all.first_expert;
    b.first = all.blocks[3 * index + 1];
    b.n = here ? all.blocks[3 * index + 2] : 0u;
  }
}

// Fills slots, and rows, which are slots / per_row: per_row is K where the input has a row per
// token, 1 where it has one per slot. Rows past the block's repeat its last.
template <uint kRows, class Shared>
FN void expert_rows(TG Shared& sm, const THR ExpertBlock& b, DEV const uint* slots, uint per_row,
                    const THR Ids& id) {
  if (id.tid < kRows) {
    const uint place = b.first + u_min(id.tid, b.n - 1);
    const uint slot = b.shared ? place : slots[place];
    sm.slots[id.tid] = slot;
    sm.rows[id.tid] = b.shared ? slot : slot / per_row;
  }
  group_barrier();
}

// act = silu(x gate^T) * (x up^T): half of the weight rows are of gate, half of up.
template <class Units, uint kUnit, uint kRows, uint kCols, class Shared>
FN void experts_tile_up_block(CON ExpertsUpParams& a, TG Shared& sm, const THR ExpertBlock& b,
                              const THR Ids& id) {
  const uint kOut = kCols / 2, row0 = id.group.x * (kUnit / 2);
  const uint kAtOnce = kRows < kTileOutRows ? kRows : kTileOutRows;
  const uint width = b.shared ? a.shared_width : a.width;
  if (row0 % kOut == 0 && row0 < width) {
    expert_rows<kRows>(sm, b, a.blocks.slots, a.n_chosen, id);
    CON ExpertMatrix& gate = b.shared ? a.shared_gate : a.gate;
    CON ExpertMatrix& up = b.shared ? a.shared_up : a.up;
    const ulong first = (ulong)b.expert * width;
    const ulong last = first + width - 1;
    const TileHalf low = {gate.codes, gate.scales, gate.biases, first + row0, last, gate.bits};
    const TileHalf high = {up.codes, up.scales, up.biases, first + row0, last, up.bits};
    const TileInput in = {a.x, a.x, sm.rows, gate.cols};
    typename Units::C sums[kRows * kCols / 2048];
    float squares[kRows / 8];
    tile_product<Units, kRows, kCols, false>(sm.area, low, high, in, sums, squares, id);
    DEV float* act = b.shared ? a.shared_act : a.act;
    for (uint at = 0; at < kRows; at += kAtOnce) {
      TG const float* out = tile_out<Units, kRows, kCols>(sm.area, sums, at, id);
      for (uint i = id.tid; i < kAtOnce * kOut; i += kTileThreads) {
        const uint t = at + i / kOut, r = i % kOut;
        TG const float* sum = out + i / kOut * (kCols + 4) + r;
        if (t < b.n && row0 + r < width)
          act[(ulong)sm.slots[t] * width + row0 + r] = m_silu(sum[0]) * sum[kOut];
      }
    }
  }
}

// out = act down^T, bf16, a row per slot; the shared expert's from row shared_at on.
template <class Units, uint kUnit, uint kRows, uint kCols, class Shared>
FN void experts_tile_down_block(CON ExpertsDownParams& a, TG Shared& sm, const THR ExpertBlock& b,
                                const THR Ids& id) {
  const uint row0 = id.group.x * kUnit, kAtOnce = kRows < kTileOutRows ? kRows : kTileOutRows;
  if (row0 % kCols == 0) {
    expert_rows<kRows>(sm, b, a.blocks.slots, 1, id);
    CON ExpertMatrix& down = b.shared ? a.shared_down : a.down;
    const ulong first = (ulong)b.expert * a.hidden + row0;
    const ulong last = first - row0 + a.hidden - 1;
    const TileHalf low = {down.codes, down.scales, down.biases, first, last, down.bits};
    const TileHalf high = {down.codes,        down.scales, down.biases,
                           first + kCols / 2, last,        down.bits};
    DEV const float* act = b.shared ? a.shared_act : a.act;
    const TileInput in = {act, act, sm.rows, down.cols};
    typename Units::C sums[kRows * kCols / 2048];
    float squares[kRows / 8];
    tile_product<Units, kRows, kCols, false>(sm.area, low, high, in, sums, squares, id);
    for (uint at = 0; at < kRows; at += kAtOnce) {
      TG const float* out = tile_out<Units, kRows, kCols>(sm.area, sums, at, id);
      for (uint i = id.tid; i < kAtOnce * kCols / 2; i += kTileThreads) {
        const uint t = at + i / (kCols / 2), r = i % (kCols / 2) * 2;
        TG const float* sum = out + i / (kCols / 2) * (kCols + 4) + r;
        if (t < b.n && row0 + r < a.hidden) {
          const ulong row = (b.shared ? a.shared_at : 0u) + sm.slots[t];
          ((DEV uint*)a.out)[(row * a.hidden + row0 + r) / 2] = bf16_pair(sum[0], sum[1]);
        }
      }
    }
  }
}

// Grid of both: x ceil(columns / kUnit), of up two columns of the product make one; y n_blocks,
// then ceil(T / block_rows); groups of 128 threads. Traffic: an expert's matrices once per block;
// the block's rows of x once per kCols.
template <class Units, uint kUnit, uint kShort, uint kShortCols, uint kTallCols, class Shared>
FN void experts_tile_up_any(CON ExpertsUpParams& a, TG Shared& sm, const THR Ids& id) {
  ExpertBlock b;
  expert_block(a.blocks, id.group.y, pass_rows(a.control), a.n_experts, a.n_chosen, b);
  if (b.n > kShort) {
    experts_tile_up_block<Units, kUnit, 2 * kShort, kTallCols>(a, sm, b, id);
  } else if (b.n > 0) {
    experts_tile_up_block<Units, kUnit, kShort, kShortCols>(a, sm, b, id);
  }
}
template <class Units, uint kUnit, uint kShort, uint kShortCols, uint kTallCols, class Shared>
FN void experts_tile_down_any(CON ExpertsDownParams& a, TG Shared& sm, const THR Ids& id) {
  ExpertBlock b;
  expert_block(a.blocks, id.group.y, pass_rows(a.control), a.n_experts, a.n_chosen, b);
  if (b.n > kShort) {
    experts_tile_down_block<Units, kUnit, 2 * kShort, kTallCols>(a, sm, b, id);
  } else if (b.n > 0) {
    experts_tile_down_block<Units, kUnit, kShort, kShortCols>(a, sm, b, id);
  }
}
