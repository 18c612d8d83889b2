// attention_many.cc on Hopper's matrix units, for eight query heads a KV head.
// Grid: x blocks of 16 rows of the segments, y Hkv; 256 threads. Two warpgroups of 64 queries each,
// 8 rows by the 8 heads: query = 8 row + head. Both read the same keys and values.
// Per page of 64 positions: scores [64, 64] = q K^T from shared memory; weights stay in registers,
// where they are the left operand of mix [64, 256] += weights V; values are taken as they lie.
// While a page's scores become weights the matrix units work on the mix of the page before. Keys
// arrive two pages ahead, values one.
// Shared memory: queries 64 KiB, two pages of keys, two of values; in blocks of 64 dims, rows of
// 128 bytes, swizzled.
// q, weights, keys and values are bf16 in the products, sums fp32.
// Traffic: keys and values once a group, which is once per 16 rows.
#include "backend/gpu/kernels/attention_params.h"
#include "backend/gpu/kernels/experts_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/cuda/kernels/wide_mma.h"
#include "backend/gpu/cuda/kernels/wide_tile.h"
#include "backend/gpu/kernels/floats.h"
#include "backend/gpu/kernels/kv_pages.h"
#include "backend/gpu/kernels/pass.h"

KERNEL_CONST uint kAttentionRows = 16, kAttentionHeads = 8, kPageBytes = 64 * 256 * 2;
KERNEL_CONST float kWideLeast = -3e38f;

// One group's work.
struct WideTask {
  uint row, n, position;  // The first row in the pass, how many, the first one's position.
  int sequence;
  uint kv_head;
};

// Where 16 bytes of a row of 256 dims lie in a block of `rows` rows.
FN uint wide_chunk(uint rows, uint row, uint chunk) {
  return chunk / 8 * (rows * 128) + row * 128 + ((chunk ^ row) & 7u) * 16;
}

FN ulong wide_head(const AttentionParams& a, const WideTask& task, uint row, uint head) {
  return ((ulong)task.row + u_min(row, task.n - 1)) * a.n_q_heads + task.kv_head * kAttentionHeads +
         head;
}

FN uint wide_bf16(float lo, float hi) {
  uint pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
  return pair;
}

// q times log2(e), so that weights are powers of two.
FN void wide_queries(const AttentionParams& a, const WideTask& task, uchar* to) {
  for (uint i = threadIdx.x; i < 128 * 32; i += kWideThreads) {
    const uint query = i / 32, chunk = i % 32;
    float x[8];
    const float* from = a.q + wide_head(a, task, query / 8, query % 8) * 256 + chunk * 8;
    load_floats(from, x);
    load_floats(from + 4, x + 4);
    UNROLL for (uint e = 0; e < 8; e++) x[e] *= 0x1.715476p0f;
    *(uint4*)(to + query / 64 * 32768 + wide_chunk(64, query % 64, chunk)) = make_uint4(
        wide_bf16(x[0], x[1]), wide_bf16(x[2], x[3]), wide_bf16(x[4], x[5]), wide_bf16(x[6], x[7]));
  }
}

// A page's keys or values. Positions behind `last` repeat it.
FN void wide_page(uchar* to, const ushort* from, uint last) {
  UNROLL for (uint j = 0; j < 8; j++) {
    const uint i = threadIdx.x + j * kWideThreads, position = i / 32, chunk = i % 32;
    copy16(to + wide_chunk(64, position, chunk),
           (const uint4*)from + u_min(position, last) * 32 + chunk);
  }
}

// Rows along the columns of the product: blocks of 64 dims are 8 KiB apart.
FN ulong wide_value_operand(const uchar* at) {
  return (ulong)((shared_address(at) & 0x3ffffu) >> 4) | (ulong)512 << 16 | (ulong)64 << 32 |
         (ulong)1 << 62;
}

FN float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The thread's two rows (queries 16 warp + lane / 4 and + 8): running maximum and its share of the
// sum.
struct WideSums {
  float largest[2], total[2];
};

// Scores become weights; returns by how much each row's mix shrinks. last: of each row the last
// position of the page that it sees, negative where none.
FN void wide_weights(float* scores, const int* last, WideSums& sums, float* shrink) {
  const int t2 = threadIdx.x % 4 * 2;
  UNROLL for (uint r = 0; r < 2; r++) {
    float most = sums.largest[r];
    UNROLL for (uint j = 0; j < 8; j++) {
      UNROLL for (uint i = 0; i < 2; i++) {
        float& s = scores[4 * j + 2 * r + i];
        s = (int)(8 * j + i) + t2 <= last[r] ? s : kWideLeast;
        most = fmaxf(most, s);
      }
    }
    most = fmaxf(most, lanes_xor(most, 1));
    most = fmaxf(most, lanes_xor(most, 2));
    shrink[r] = exp2_fast(sums.largest[r] - most);
    sums.largest[r] = most;
    float total = 0.0f;
    UNROLL for (uint j = 0; j < 8; j++) {
      UNROLL for (uint i = 0; i < 2; i++) {
        float& s = scores[4 * j + 2 * r + i];
        s = exp2_fast(s - most);
        total += s;
      }
    }
    sums.total[r] = m_fma(sums.total[r], shrink[r], total);
  }
}
// As left operands.
FN void wide_left(const float* scores, uint (*weights)[4]) {
  UNROLL for (uint i = 0; i < 16; i++) weights[i / 4][i % 4] =
      wide_bf16(scores[2 * i], scores[2 * i + 1]);
}

FN void wide_hold_floats(float* c, uint n) {
  UNROLL for (uint i = 0; i < n; i++) asm volatile("" : "+f"(c[i])::"memory");
}

FN void attention_wide_finish(const AttentionParams& a, const WideTask& task, const float* mix,
                              const WideSums& sums) {
  const uint query = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  UNROLL for (uint r = 0; r < 2; r++) {
    float total = sums.total[r];
    total += lanes_xor(total, 1);
    total += lanes_xor(total, 2);
    const uint row = query / 8 + r;
    if (row >= task.n) continue;
    const ulong head = wide_head(a, task, row, query % 8);
    const float* gate = a.q_gate + (head * 2 + 1) * 256;
    const float inverse = 1.0f / total;
    UNROLL for (uint j = 0; j < 32; j++) {
      const float2 g = *(const float2*)(gate + 8 * j + 2 * t);
      *(float2*)(a.y + head * 256 + 8 * j + 2 * t) =
          make_float2(mix[4 * j + 2 * r] * inverse * m_sigmoid(g.x),
                      mix[4 * j + 2 * r + 1] * inverse * m_sigmoid(g.y));
    }
  }
}

// The pages of a group's context, and where they are in shared memory.
struct WidePages {
  KvPages kv;
  int sequence;
  uint kv_head, n_positions, n;
  uchar *keys, *values;  // Two each.
};
FN void fetch_keys(const WidePages& p, uint b) {
  if (b >= p.n) return;
  wide_page(p.keys + b % 2 * kPageBytes, kv_page(p.kv, p.sequence, b, p.kv_head),
            u_min(kKvPage, p.n_positions - b * kKvPage) - 1);
}
FN void fetch_values(const WidePages& p, uint b) {
  if (b >= p.n) return;
  wide_page(p.values + b % 2 * kPageBytes, kv_page(p.kv, p.sequence, b, p.kv_head) + kKvPage * 256,
            u_min(kKvPage, p.n_positions - b * kKvPage) - 1);
}

// Starts the scores of page b.
FN void start_scores(const WidePages& p, const uchar* queries, uint b, float* scores) {
  const uchar* keys = p.keys + b % 2 * kPageBytes;
  UNROLL for (uint i = 0; i < 32; i++) scores[i] = 0.0f;
  wide_hold_floats(scores, 32);
  wide_fence();
  UNROLL for (uint k = 0; k < 16; k++) {
    const uint at = k / 4 * 8192 + k % 4 * 32;
    wide_mma_scores(scores, wide_operand(queries + at), wide_operand(keys + at));
  }
  wide_commit();
}

FN void start_mix(const WidePages& p, uint b, float* mix, const uint (*weights)[4]) {
  const uchar* values = p.values + b % 2 * kPageBytes;
  wide_fence();
  UNROLL for (uint k = 0; k < 4; k++)
      wide_mma_mix(mix, weights[k], wide_value_operand(values + k * 2048));
  wide_commit();
}

// What has arrived is there for all, also for the matrix units.
FN void wide_arrived() {
  copies_wait();
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  group_barrier();
}

// Of the thread's rows the last position that each sees, counted from page b.
FN void wide_last(const WideTask& task, uint b, int* last) {
  const uint row = threadIdx.x / 32 * 2;
  UNROLL for (uint r = 0; r < 2; r++) {
    last[r] = (int)(task.position + u_min(row + r, task.n - 1)) - (int)(b * kKvPage);
  }
}

FN void attention_wide_tile(const AttentionParams& a, const WideTask& task, uchar* area) {
  const uchar* queries = area + threadIdx.x / 128 * 32768;
  const uint n_positions = task.position + task.n, n = (n_positions + kKvPage - 1) / kKvPage;
  const WidePages pages = {{a.pages, a.page_table, a.table_stride, a.n_kv_heads},
                           task.sequence,
                           task.kv_head,
                           n_positions,
                           n,
                           area + 65536,
                           area + 65536 + 2 * kPageBytes};
  fetch_keys(pages, 0);
  fetch_keys(pages, 1);
  fetch_values(pages, 0);
  copies_commit();
  wide_queries(a, task, area);
  wide_arrived();
  float mix[128], scores[32], shrink[2];
  uint weights[4][4];
  int last[2];
  UNROLL for (uint i = 0; i < 128; i++) mix[i] = 0.0f;
  WideSums sums = {{kWideLeast, kWideLeast}, {0.0f, 0.0f}};
  start_scores(pages, queries, 0, scores);
  wide_wait<0>();
  wide_hold_floats(scores, 32);
  wide_last(task, 0, last);
  wide_weights(scores, last, sums, shrink);
  wide_left(scores, weights);
  for (uint b = 0; b + 1 < n; b++) {
    wide_arrived();
    // All have read the keys of this page and the values of the one before.
    fetch_keys(pages, b + 2);
    fetch_values(pages, b + 1);
    copies_commit();
    start_scores(pages, queries, b + 1, scores);
    start_mix(pages, b, mix, weights);
    wide_wait<1>();
    wide_hold_floats(scores, 32);
    wide_last(task, b + 1, last);
    wide_weights(scores, last, sums, shrink);
    wide_wait<0>();
    wide_hold(weights);
    wide_hold_floats(mix, 128);
    if (__any_sync(0xffffffffu, shrink[0] != 1.0f || shrink[1] != 1.0f)) {
      UNROLL for (uint i = 0; i < 128; i++) mix[i] *= shrink[i % 4 / 2];
    }
    wide_left(scores, weights);
  }
  wide_arrived();
  start_mix(pages, n - 1, mix, weights);
  wide_wait<0>();
  wide_hold(weights);
  wide_hold_floats(mix, 128);
  attention_wide_finish(a, task, mix, sums);
}

CUDA_KERNEL(attention_wide, AttentionParams, 256, 1) {
  PassBlock block;
  pass_block(a.control, blockIdx.x, kAttentionRows, block);
  if (block.n == 0) return;
  const WideTask task = {(uint)block.first_row + block.first, block.n,
                         (uint)block.position + block.first, block.sequence, blockIdx.y};
  attention_wide_tile(a, task, wide_area());
}
