// attention for many rows, on the tile layer: y = softmax(q K^T) V * sigmoid(gate), online over
// blocks of 64 positions (pages) from 0 to the tile's last row.
//
// A group has 32 queries: the heads of one KV head (tile_heads, padded to a power of two) of
// 32 / tile_heads rows of one segment, so keys and values are shared by all of them. Padding, and
// rows past the segment's end, repeat a neighbour and are not written.
// Grid: x blocks of 32 / tile_heads rows of the segments, y Hkv; 128 threads.
// Per block of positions: scores 32 x 64, 256 dims 64 at a time, a simdgroup per tile of 16 x 32;
// softmax by 4 lanes a query; the mix 32 x 256, again 64 dims at a time, values turned on their way
// to threadgroup memory. What a block adds is joined to sums in registers that the running maximum
// shrinks; lanes of a tile being the device's own business, by way of threadgroup memory.
// q, weights, keys and values are bf16 in the products, sums fp32; weights are rounded before they
// are added up. A row's numbers depend on its position alone, as long as what lies behind it in
// the tile is finite.
// _plain: without matrix units.
// Traffic: keys and values once a group, which is once per 4 rows at 8 heads a KV head.
#include "backend/gpu/kernels/attention_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/floats.h"
#include "backend/gpu/kernels/kv_pages.h"
#include "backend/gpu/kernels/pass.h"

KERNEL_CONST uint kManyQueries = 32, kManyThreads = 128;
KERNEL_CONST uint kManyQld = 264, kManyLd = 72, kManyScoreLd = 68, kManyOutLd = 36;
KERNEL_CONST float kManyLeast = -3e38f;

struct AttentionManyShared {
  uint4 q[32 * 264 / 8];       // [32, 256] bf16, rows of 264
  uint4 area[64 * 72 / 8];     // In turn: keys [64, 64] and values [64 dims, 64] bf16, rows of 72;
                               // scores [32, 64] f32, rows of 68; 4 tiles [16, 32] f32, rows of 36
  uint4 weights[32 * 72 / 8];  // [32, 64] bf16, rows of 72
  float shrink[32], total[32];
};

// One group's work: where its queries and its part of the cache are.
struct AttentionManyTile {
  uint row, n, position;  // The first row in the pass, how many, the first one's position.
  int sequence;
  uint kv_head, group;  // group: query heads of the KV head
};

FN uint attention_many_row(CON AttentionParams& a, const THR AttentionManyTile& tile, uint query) {
  return u_min(query / a.tile_heads, tile.n - 1);
}
FN ulong attention_many_head(CON AttentionParams& a, const THR AttentionManyTile& tile,
                             uint query) {
  const uint row = tile.row + attention_many_row(a, tile, query);
  const uint head = u_min(query % a.tile_heads, tile.group - 1);
  return (ulong)row * a.n_q_heads + tile.kv_head * tile.group + head;
}

FN void attention_many_queries(CON AttentionParams& a, TG AttentionManyShared& sm,
                               const THR AttentionManyTile& tile, uint tid) {
  for (uint i = tid; i < kManyQueries * 32; i += kManyThreads) {
    const uint query = i / 32, dim = i % 32 * 8;
    DEV const float* from = a.q + attention_many_head(a, tile, query) * 256 + dim;
    float x[8];
    load_floats(from, x);
    load_floats(from + 4, x + 4);
    sm.q[(query * kManyQld + dim) / 8] = make_uint4(bf16_pair(x[0], x[1]), bf16_pair(x[2], x[3]),
                                                    bf16_pair(x[4], x[5]), bf16_pair(x[6], x[7]));
  }
}

// 64 dims of the block's keys; positions behind `last` repeat it.
FN void attention_many_keys(TG AttentionManyShared& sm, DEV const ushort* keys, uint dim, uint last,
                            uint tid) {
  UNROLL for (uint j = 0; j < 4; j++) {
    const uint i = tid + j * kManyThreads, position = i / 8, c = i % 8;
    sm.area[(position * kManyLd) / 8 + c] =
        ((DEV const uint4*)keys)[u_min(position, last) * 32 + dim / 8 + c];
  }
}
// 64 dims of its values, turned: rows of dims. Two positions a thread, so that words are written;
// zero behind `last`, whose weights are zero.
FN void attention_many_values(TG AttentionManyShared& sm, DEV const ushort* values, uint dim,
                              uint last, uint tid) {
  UNROLL for (uint j = 0; j < 2; j++) {
    const uint i = tid + j * kManyThreads, position = i / 8 * 2, c = i % 8;
    DEV const uint4* from = (DEV const uint4*)values + dim / 8 + c;
    uint4 even = make_uint4(0, 0, 0, 0), odd = make_uint4(0, 0, 0, 0);
    if (position <= last) even = from[position * 32];
    if (position < last) odd = from[(position + 1) * 32];
    TG uint* to = (TG uint*)sm.area + (c * 8 * kManyLd + position) / 2;
    const uint e[4] = {even.x, even.y, even.z, even.w}, o[4] = {odd.x, odd.y, odd.z, odd.w};
    UNROLL for (uint d = 0; d < 4; d++) {
      to[d * kManyLd] = (e[d] & 0xffffu) | (o[d] << 16);
      to[d * kManyLd + kManyLd / 2] = (e[d] >> 16) | (o[d] & 0xffff0000u);
    }
  }
}

// Scores of the block, in sm.area.
template <class Units>
FN void attention_many_scores(TG AttentionManyShared& sm, DEV const ushort* keys, uint last,
                              const THR Ids& id) {
  const uint query0 = id.simd / 2 * 16, position0 = id.simd % 2 * 32;
  TG const ushort* q = (TG const ushort*)sm.q + query0 * kManyQld;
  TG const ushort* k = (TG const ushort*)sm.area + position0 * kManyLd;
  typename Units::C sums;
  tile_zero(sums);
  for (uint dim = 0; dim < 256; dim += 64) {
    attention_many_keys(sm, keys, dim, last, id.tid);
    group_barrier();
    UNROLL for (uint d = 0; d < 64; d += 16) {
      typename Units::A left;
      typename Units::B right;
      tile_load_a(left, q + dim + d, kManyQld);
      tile_load_bt(right, k + d, kManyLd);
      tile_mma(sums, left, right);
    }
    group_barrier();
  }
  tile_store(sums, (TG float*)sm.area + query0 * kManyScoreLd + position0, kManyScoreLd);
  group_barrier();
}

// Running maximum and sum of a query, the same in its 4 lanes.
struct AttentionManySum {
  float largest, total;
};

// Weights of a thread's query: 16 positions a lane. `last`: the query's own last position of the
// block, negative where it sees none.
FN void attention_many_weights(TG AttentionManyShared& sm, THR AttentionManySum& sum, int last,
                               uint tid) {
  const uint query = tid / 4, lane = tid % 4;
  TG const float* scores = (TG const float*)sm.area + query * kManyScoreLd + lane;
  TG ushort* weights = (TG ushort*)sm.weights + query * kManyLd + lane;
  float s[16];
  float largest = sum.largest;
  UNROLL for (uint i = 0; i < 16; i++) {
    s[i] = (int)(4 * i + lane) <= last ? scores[4 * i] : kManyLeast;
    largest = m_max(s[i], largest);
  }
  largest = m_max(largest, lanes_xor(largest, 2));
  largest = m_max(largest, lanes_xor(largest, 1));
  float total = 0.0f;
  UNROLL for (uint i = 0; i < 16; i++) {
    const ushort w = f_to_bf16((int)(4 * i + lane) <= last ? m_exp(s[i] - largest) : 0.0f);
    weights[4 * i] = w;
    total += bf16_to_f(w);
  }
  total += lanes_xor(total, 2);
  total += lanes_xor(total, 1);
  const float shrink = m_exp(sum.largest - largest);
  sum.total = m_fma(sum.total, shrink, total);
  sum.largest = largest;
  if (lane == 0) sm.shrink[query] = shrink;
}

// The block's mix joined to sums [4 of 64 dims][16 queries]: this lane's dim of its simdgroup's
// tile.
template <class Units>
FN void attention_many_mix(TG AttentionManyShared& sm, THR float* sums, DEV const ushort* values,
                           uint last, const THR Ids& id) {
  const uint query0 = id.simd / 2 * 16, dim0 = id.simd % 2 * 32;
  TG const ushort* w = (TG const ushort*)sm.weights + query0 * kManyLd;
  TG const ushort* v = (TG const ushort*)sm.area + dim0 * kManyLd;
  TG float* out = (TG float*)sm.area + id.simd * 16 * kManyOutLd;
  UNROLL for (uint part = 0; part < 4; part++) {
    attention_many_values(sm, values, part * 64, last, id.tid);
    group_barrier();
    typename Units::C mix;
    tile_zero(mix);
    UNROLL for (uint p = 0; p < 64; p += 16) {
      typename Units::A left;
      typename Units::B right;
      tile_load_a(left, w + p, kManyLd);
      tile_load_bt(right, v + p, kManyLd);
      tile_mma(mix, left, right);
    }
    group_barrier();
    tile_store(mix, out, kManyOutLd);
    lanes_barrier();
    UNROLL for (uint i = 0; i < 16; i++) {
      sums[part * 16 + i] =
          m_fma(sums[part * 16 + i], sm.shrink[query0 + i], out[i * kManyOutLd + id.lane]);
    }
    group_barrier();
  }
}

FN void attention_many_finish(CON AttentionParams& a, TG AttentionManyShared& sm,
                              const THR AttentionManyTile& tile, const THR float* sums,
                              const THR Ids& id) {
  const uint query0 = id.simd / 2 * 16, dim0 = id.simd % 2 * 32 + id.lane;
  UNROLL for (uint i = 0; i < 16; i++) {
    const uint query = query0 + i;
    if (query / a.tile_heads < tile.n && query % a.tile_heads < tile.group) {
      const ulong head = attention_many_head(a, tile, query);
      const float total = sm.total[query];
      UNROLL for (uint part = 0; part < 4; part++) {
        const uint dim = part * 64 + dim0;
        const float gate = a.q_gate[(head * 2 + 1) * 256 + dim];
        a.y[head * 256 + dim] = sums[part * 16 + i] / total * m_sigmoid(gate);
      }
    }
  }
}

template <class Units>
FN void attention_many_tile(CON AttentionParams& a, TG AttentionManyShared& sm,
                            const THR AttentionManyTile& tile, const THR Ids& id) {
  const uint n_positions = tile.position + tile.n;
  const int own = (int)(tile.position + attention_many_row(a, tile, id.tid / 4));
  attention_many_queries(a, sm, tile, id.tid);
  AttentionManySum sum = {kManyLeast, 0.0f};
  float sums[64];
  UNROLL for (uint i = 0; i < 64; i++) sums[i] = 0.0f;
  const KvPages kv = {a.pages, a.page_table, a.table_stride, a.n_kv_heads};
  for (uint b = 0; b * kKvPage < n_positions; b++) {
    DEV const ushort* keys = kv_page(kv, tile.sequence, b, tile.kv_head);
    const uint last = u_min(kKvPage, n_positions - b * kKvPage) - 1;
    attention_many_scores<Units>(sm, keys, last, id);
    attention_many_weights(sm, sum, own - (int)(b * kKvPage), id.tid);
    group_barrier();
    attention_many_mix<Units>(sm, sums, keys + kKvPage * 256, last, id);
  }
  if (id.tid % 4 == 0) sm.total[id.tid / 4] = sum.total;
  group_barrier();
  attention_many_finish(a, sm, tile, sums, id);
}

template <class Units>
FN void attention_many_block(CON AttentionParams& a, TG AttentionManyShared& sm,
                             const THR Ids& id) {
  PassBlock block;
  pass_block(a.control, id.group.x, kManyQueries / a.tile_heads, block);
  if (block.n > 0) {  // The same for all threads.
    const AttentionManyTile tile = {(uint)block.first_row + block.first,
                                    block.n,
                                    (uint)block.position + block.first,
                                    block.sequence,
                                    id.group.y,
                                    a.n_q_heads / a.n_kv_heads};
    attention_many_tile<Units>(a, sm, tile, id);
  }
}

KERNEL(attention_many, AttentionParams, AttentionManyShared, 128) {
  attention_many_block<MatrixUnits>(a, sm, id);
}
KERNEL(attention_many_plain, AttentionParams, AttentionManyShared, 128) {
  attention_many_block<PlainLanes>(a, sm, id);
}
