// delta_chunks: T and M of delta_chunk.h for every chunk, before delta_scan. Inputs q and k are
// written over: nobody else needs them.
//
// Grid: x Hk, y chunks (rows / 64 + segments); 256 threads, four groups a multiprocessor. Warps 0
// to 3 multiply k with k, the others q with k, 16 rows each. Then a warp has 16 rows of a value
// head's T: the inverse of L's block on the diagonal by substitution in fp32, the blocks beside it
// by products on the matrix units, of fp16 planes that add up to 22 bits. Traffic: q and k in and
// out. A layer of 2,048 tokens of the 35B on an H200: 35 us, more than half of it memory. Lost:
// substitution for all 64 rows, a column a thread, 58 us, half of it waiting for shared memory.
#include "backend/gpu/cuda/kernels/delta_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/delta_chunk.h"
#include "backend/gpu/cuda/kernels/halves.h"
#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/kernels/pass.h"

struct ChunkRows {
  ushort q[64][136], k[64][136];  // fp16
};
// Of a value head, as planes: L, on the diagonal the blocks' inverses.
struct ChunkSystem {
  ushort planes[2][64][72];
};
struct ChunkShared {
  union {
    ChunkRows rows;
    ChunkSystem systems[2];
  };
  float diagonal[2][4][16][20];  // L's blocks of 16
  float log_decays[2][64], beta[2][64];
};
static_assert(sizeof(ChunkShared) == kDeltaChunksBytes, "lowering.cc asks for as much");

// What a group works on.
struct ChunkTask {
  uint key_head, n_heads;  // The key head's value heads
  uint row, n;             // Of the pass
};

FN ulong chunk_row(const GdnScanParams& a, const ChunkTask& task, uint t) {
  return (((ulong)task.row + t) * a.n_key_heads + task.key_head) * 128;
}
FN uint2 four_halves(float4 x) {
  return make_uint2(pair_half(x.x, x.y), pair_half(x.z, x.w));
}
FN void chunk_load(const GdnScanParams& a, ChunkShared& sm, const ChunkTask& task) {
  const uint tid = threadIdx.x;
#pragma unroll 4
  for (uint i = tid; i < 64 * 32; i += 256) {
    const uint t = i / 32, column = i % 32 * 4;
    float4 q = make_float4(0.0f, 0.0f, 0.0f, 0.0f), k = q;
    if (t < task.n) {
      q = *(const float4*)(a.q + chunk_row(a, task, t) + column);
      k = *(const float4*)(a.k + chunk_row(a, task, t) + column);
    }
    *(uint2*)&sm.rows.q[t][column] = four_halves(q);
    *(uint2*)&sm.rows.k[t][column] = four_halves(k);
  }
}
// A warp a value head, a lane two tokens; behind the last one nothing decays and nothing is learnt.
FN void chunk_gates(const GdnScanParams& a, ChunkShared& sm, const ChunkTask& task) {
  const uint of = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (of >= task.n_heads) return;
  float logs[2];
  UNROLL for (uint e = 0; e < 2; e++) {
    const uint t = lane * 2 + e;
    const ulong at = ((ulong)task.row + t) * a.n_value_heads + task.key_head * task.n_heads + of;
    logs[e] = t < task.n ? log_decay(a.decay[at]) : 0.0f;
    sm.beta[of][t] = t < task.n ? a.beta[at] : 0.0f;
  }
  const float2 sums = sums_since_start(logs[0], logs[1]);
  sm.log_decays[of][lane * 2] = sums.x;
  sm.log_decays[of][lane * 2 + 1] = sums.y;
}

// Rows 16 r .. + 15 of k (or q) with every k up to them.
FN void chunk_products(const ChunkRows& sm, bool queries, uint r, float (*c)[4]) {
  const uint lane = threadIdx.x % 32, matrix = lane / 8;
  const ushort(*rows)[136] = queries ? sm.q : sm.k;
  UNROLL for (uint j = 0; j < 8; j++) {
    UNROLL for (uint e = 0; e < 4; e++) c[j][e] = 0.0f;
  }
  for (uint step = 0; step < 8; step++) {
    uint x[4], y[4];
    load_matrices(x, &rows[16 * r + matrix % 2 * 8 + lane % 8][16 * step + matrix / 2 * 8]);
    UNROLL for (uint p = 0; p < 4; p++) {
      if (p > r) continue;
      load_matrices(y, &sm.k[16 * p + matrix / 2 * 8 + lane % 8][16 * step + matrix % 2 * 8]);
      mma_half(c[2 * p], x, y[0], y[1]);
      mma_half(c[2 * p + 1], x, y[2], y[3]);
    }
  }
}
FN ushort* chunk_matrix(const GdnScanParams& a, const ChunkTask& task, uint of, uint t) {
  return (ushort*)((of == 0 ? a.k : a.q) + chunk_row(a, task, t));
}
FN void chunk_store_rows(const GdnScanParams& a, const ChunkRows& rows, const ChunkTask& task) {
  for (uint i = threadIdx.x; i < task.n * 16; i += 256) {
    const uint t = i / 16, first = i % 16 * 8;
    *(uint4*)((ushort*)(a.q + chunk_row(a, task, t)) + first) = *(const uint4*)&rows.q[t][first];
    *(uint4*)((ushort*)(a.k + chunk_row(a, task, t)) + first) = *(const uint4*)&rows.k[t][first];
  }
}

// L to shared memory, M to its place, of the pair of tokens first, first + 1 behind token i.
FN void chunk_place(const GdnScanParams& a, ChunkShared& sm, const ChunkTask& task, bool queries,
                    uint of, uint i, uint first, const float* x) {
  if (queries) {
    if (i < task.n)
      *(uint*)(chunk_matrix(a, task, of, i) + kChunkM + first) = pair_half(x[0], x[1]);
    return;
  }
  const float l[2] = {sm.beta[of][i] * x[0], sm.beta[of][i] * x[1]};
  const uint high = pair_half(l[0], l[1]);
  *(uint*)&sm.systems[of].planes[0][i][first] = high;
  *(uint*)&sm.systems[of].planes[1][i][first] =
      pair_half(l[0] - half_lo(high), l[1] - half_hi(high));
  if (i / 16 == first / 16)
    *(float2*)&sm.diagonal[of][i / 16][i % 16][first % 16] = make_float2(l[0], l[1]);
}
FN void chunk_decay(const GdnScanParams& a, ChunkShared& sm, const ChunkTask& task, bool queries,
                    uint r, const float (*c)[4]) {
  const uint lane = threadIdx.x % 32;
  UNROLL for (uint j = 0; j < 8; j++) {
    if (j / 2 > r) continue;
    for (uint of = 0; of < task.n_heads; of++) {
      UNROLL for (uint half = 0; half < 2; half++) {
        const uint i = 16 * r + lane / 4 + 8 * half, first = 8 * j + lane % 4 * 2;
        float x[2];
        UNROLL for (uint e = 0; e < 2; e++) {
          const bool counts = queries ? first + e <= i : first + e < i;
          const float decay = power_of_two(sm.log_decays[of][i] - sm.log_decays[of][first + e]);
          x[e] = counts ? decay * c[j][2 * half + e] : 0.0f;
        }
        chunk_place(a, sm, task, queries, of, i, first, x);
      }
    }
  }
}

// The inverse of I + a block on the diagonal, a column a lane, to the planes.
FN void chunk_invert(ChunkShared& sm, uint of, uint b) {
  const uint column = threadIdx.x % 32;
  if (column >= 16) return;
  const float(*l)[20] = sm.diagonal[of][b];
  float x[16];
  UNROLL for (uint r = 0; r < 16; r++) {
    x[r] = r == column ? 1.0f : 0.0f;
    UNROLL for (uint j = 0; j < r; j += 4) {
      const float4 y = *(const float4*)&l[r][j];
      x[r] = m_fma(-y.x, x[j], x[r]);
      if (j + 1 < r) x[r] = m_fma(-y.y, x[j + 1], x[r]);
      if (j + 2 < r) x[r] = m_fma(-y.z, x[j + 2], x[r]);
      if (j + 3 < r) x[r] = m_fma(-y.w, x[j + 3], x[r]);
    }
  }
  UNROLL for (uint r = 0; r < 16; r++) {
    const uint high = pair_half(x[r], 0.0f);
    sm.systems[of].planes[0][16 * b + r][16 * b + column] = (ushort)high;
    sm.systems[of].planes[1][16 * b + r][16 * b + column] =
        (ushort)pair_half(x[r] - half_lo(high), 0.0f);
  }
}

// c [16, 16] += a times block (i, j) of the system.
FN void chunk_multiply(float (*c)[4], const uint (*a)[4], const ChunkSystem& system, uint i,
                       uint j) {
  const uint lane = threadIdx.x % 32, matrix = lane / 8;
  UNROLL for (uint plane = 0; plane < 2; plane++) {
    uint b[4];
    load_matrices_across(
        b, &system.planes[plane][16 * i + matrix % 2 * 8 + lane % 8][16 * j + matrix / 2 * 8]);
    UNROLL for (uint of_a = 0; of_a + plane < 2; of_a++) {
      mma_half(c[0], a[of_a], b[0], b[1]);
      mma_half(c[1], a[of_a], b[2], b[3]);
    }
  }
}
// T's block (i, j), of which the lane has c.
FN void chunk_store(const GdnScanParams& a, const ChunkShared& sm, const ChunkTask& task, uint of,
                    uint i, uint j, const float (*c)[4]) {
  const uint lane = threadIdx.x % 32;
  UNROLL for (uint e = 0; e < 4; e++) {
    const uint t = 16 * i + lane / 4 + e % 2 * 8, first = 16 * j + e / 2 * 8 + lane % 4 * 2;
    const float lo = c[e / 2][e % 2 * 2] * sm.beta[of][first],
                hi = c[e / 2][e % 2 * 2 + 1] * sm.beta[of][first + 1];
    if (t < task.n) *(uint*)(chunk_matrix(a, task, of, t) + kChunkT + first) = pair_half(lo, hi);
  }
}
// Rows 16 i .. + 15 of T, from the diagonal back: T_ij = - sum over k > j of T_ik L_kj, times the
// inverse at j.
FN void chunk_solve(const GdnScanParams& a, const ChunkShared& sm, const ChunkTask& task, uint of,
                    uint i) {
  const ChunkSystem& system = sm.systems[of];
  const uint lane = threadIdx.x % 32, matrix = lane / 8;
  uint t[4][2][4];  // T_ii, T_i,i-1, ... as planes
  UNROLL for (uint plane = 0; plane < 2; plane++) {
    load_matrices(
        t[0][plane],
        &system.planes[plane][16 * i + matrix % 2 * 8 + lane % 8][16 * i + matrix / 2 * 8]);
  }
  float c[2][4];
  UNROLL for (uint e = 0; e < 4; e++) {
    c[e / 2][e % 2 * 2] = half_lo(t[0][0][e]) + half_lo(t[0][1][e]);
    c[e / 2][e % 2 * 2 + 1] = half_hi(t[0][0][e]) + half_hi(t[0][1][e]);
  }
  chunk_store(a, sm, task, of, i, i, c);
  UNROLL for (uint back = 1; back < 4; back++) {
    if (back > i) continue;
    const uint j = i - back;
    float sum[2][4] = {};
    UNROLL for (uint k = 0; k < back; k++) chunk_multiply(sum, t[k], system, i - k, j);
    uint x[2][4];
    half_planes(sum, -1.0f, x);
    float block[2][4] = {};
    chunk_multiply(block, x, system, j, j);
    half_planes(block, 1.0f, t[back]);
    chunk_store(a, sm, task, of, i, j, block);
  }
}

CUDA_KERNEL(delta_chunks, GdnScanParams, 256, 4) {
  ChunkShared& sm = *(ChunkShared*)group_memory;
  PassBlock block;
  pass_block(a.control, blockIdx.y, kChunkTokens, block);
  if (block.n == 0) return;
  const ChunkTask task = {blockIdx.x, a.n_value_heads / a.n_key_heads,
                          (uint)block.first_row + block.first, block.n};
  const uint warp = threadIdx.x / 32;
  chunk_gates(a, sm, task);
  chunk_load(a, sm, task);
  group_barrier();
  float c[8][4];
  chunk_products(sm.rows, warp >= 4, warp % 4, c);
  chunk_store_rows(a, sm.rows, task);
  group_barrier();
  chunk_decay(a, sm, task, warp >= 4, warp % 4, c);
  group_barrier();
  const bool works = warp / 4 < task.n_heads;
  if (works) chunk_invert(sm, warp / 4, warp % 4);
  group_barrier();
  if (works) chunk_solve(a, sm, task, warp / 4, warp % 4);
}
