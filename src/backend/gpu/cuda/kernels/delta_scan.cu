// gdn_scan_many for Hopper, second half: from a segment's state to its state, chunk after chunk,
// with what delta_chunks has made (delta_chunk.h). gdn_norm.cc follows.
//
// Grid: x four groups a value head, which take the segments in turn; 256 threads. Half of the warps
// bring the next chunks to shared memory. Of the others two learn, d and S, and two answer, o: 16
// columns of S each, transposed, in registers. Who answers is told d and keeps an S of its own,
// which costs less than being told S. A product's sums [16 columns, tokens or keys] are dealt as
// the next one's left operand is, so nothing else leaves a warp. Left operands are fp16 in units of
// a power of two a column, right operands as delta_chunks left them; sums, S and decays are fp32.
// Where states are asked for row by row, chunks are of one token.
//
// Traffic: q, k, T and M of a chunk once a group, from cache; v and y once.
//
// A layer of 2,048 tokens of the 35B on an H200, us, without delta_chunks' 35: token by token 767,
// by twos 470; in chunks 127 with two computing warps, 104 with four, 101 with three stages instead
// of two and no barrier that all wait at, 78 with left operands of 11 bits where they had 22 (o is
// off by 7e-4 of its norm then, and was by 5e-4). Lost: each kind of warp with code of its own,
// 155, since both together do not fit the cache of instructions.
#include "backend/gpu/cuda/kernels/delta_params.h"

#include "backend/gpu/dialect/dialect.h"

#include "backend/gpu/cuda/kernels/arrivals.h"
#include "backend/gpu/cuda/kernels/delta_chunk.h"
#include "backend/gpu/cuda/kernels/halves.h"
#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/kernels/pass.h"

KERNEL_CONST uint kScanWarps = 4, kScanCopiers = 128, kScanStages = 3;

struct ScanStage {
  ushort q[64][136], k[64][136], t[64][72], m[64][72];  // fp16; t: T
  float v[64][36];
  // What decays from the chunk's start through a token, and behind it to the chunk's end.
  float since[64], until[64];
};
struct ScanShared {
  ScanStage stages[kScanStages];
  float4 d[2][2][8][32];  // By turn, 16 columns and lane
  ulong full[kScanStages], empty[kScanStages], told[2][2], heard[2][2];
};
static_assert(sizeof(ScanShared) == kDeltaScanBytes, "lowering.cc asks for as much");

// What a group works on.
struct ScanTask {
  uint head, key_head, first_column;
  uint of;  // Which of the key head's value heads
};

// Tokens row .. row + n - 1 of the pass. in_block: where the first stands among those that T and M
// were made for.
struct ScanChunk {
  uint row, n, in_block;
};

FN void copy16_or_zero(void* to, const void* from, bool is) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(is ? 16 : 0)
               : "memory");
}
// 64 rows of kBytes to shared memory, kStride bytes apart there and `stride` where they come from;
// from row n on noughts.
template <uint kBytes, uint kStride>
FN void scan_copy_rows(void* to, const void* from, uint stride, uint n) {
  const uint pieces = kBytes / 16, thread = threadIdx.x % kScanCopiers,
             piece = thread % pieces * 16;
  UNROLL for (uint i = 0; i < 64 * pieces / kScanCopiers; i++) {
    const uint t = thread / pieces + i * (kScanCopiers / pieces);
    const uint offset = t < n ? t * stride : 0;
    copy16_or_zero((uchar*)to + t * kStride + piece, (const uchar*)from + offset + piece, t < n);
  }
}
// Of a chunk of one token T and M are numbers.
FN void scan_copy_numbers(ScanStage& to, const ushort* from) {
  for (uint i = threadIdx.x % kScanCopiers; i < 64 * 8; i += kScanCopiers) {
    const uint t = i / 8, first = i % 8 * 8;
    *(uint4*)&to.t[t][first] = make_uint4(i == 0 ? from[kChunkT] : 0, 0, 0, 0);
    *(uint4*)&to.m[t][first] = make_uint4(i == 0 ? from[kChunkM] : 0, 0, 0, 0);
  }
}
FN void scan_copy(const GdnScanParams& a, ScanStage& to, const ScanTask& task,
                  const ScanChunk& chunk, bool single) {
  const ulong row = ((ulong)chunk.row * a.n_key_heads + task.key_head) * 128;
  const ushort* matrices = (const ushort*)((task.of == 0 ? a.k : a.q) + row);
  const uint stride = a.n_key_heads * 512;
  scan_copy_rows<256, 272>(to.k, a.k + row, stride, chunk.n);
  scan_copy_rows<256, 272>(to.q, a.q + row, stride, chunk.n);
  if (single) {
    scan_copy_numbers(to, matrices + chunk.in_block);
  } else {
    scan_copy_rows<128, 144>(to.t, matrices + kChunkT, stride, chunk.n);
    scan_copy_rows<128, 144>(to.m, matrices + kChunkM, stride, chunk.n);
  }
  const ulong value = ((ulong)chunk.row * a.n_value_heads + task.head) * 128 + task.first_column;
  scan_copy_rows<128, 144>(to.v, a.v + value, a.n_value_heads * 512, chunk.n);
}
// Decays of the lane's two tokens.
FN float2 scan_decays(const GdnScanParams& a, const ScanTask& task, const ScanChunk& chunk) {
  const uint t = threadIdx.x % 32 * 2;
  const float* from = a.decay + ((ulong)chunk.row + t) * a.n_value_heads + task.head;
  return make_float2(t < chunk.n ? *from : 1.0f, t + 1 < chunk.n ? from[a.n_value_heads] : 1.0f);
}
FN void scan_gates(ScanStage& to, float2 decays) {
  const uint lane = threadIdx.x % 32;
  const float2 sums = sums_since_start(log_decay(decays.x), log_decay(decays.y));
  const float whole = lanes_read(sums.y, 31);
  *(float2*)&to.since[lane * 2] = make_float2(power_of_two(sums.x), power_of_two(sums.y));
  *(float2*)&to.until[lane * 2] =
      make_float2(power_of_two(whole - sums.x), power_of_two(whole - sums.y));
}
// Of a group's chunk number i, over all its segments: who uses a place, and its phase.
FN uint scan_stage_of(uint i) {
  return i % kScanStages;
}
FN uint scan_phase(uint i) {
  return i / kScanStages & 1u;
}
FN ScanChunk scan_chunk(const PassBlock& segment, uint first, uint size) {
  return {(uint)segment.first_row + first, u_min(segment.n - first, size), first % kChunkTokens};
}
// The copying warps' part of a segment, whose first chunk is number i.
FN void scan_feed(const GdnScanParams& a, ScanShared& sm, const ScanTask& task,
                  const PassBlock& segment, uint size, uint i) {
  const bool first_warp = threadIdx.x / 32 == kScanWarps;
  for (uint first = 0; first < segment.n; first += size, i++) {
    const uint at = scan_stage_of(i);
    const ScanChunk chunk = scan_chunk(segment, first, size);
    const float2 decays = scan_decays(a, task, chunk);
    arrival_wait(&sm.empty[at], scan_phase(i) ^ 1u);
    scan_copy(a, sm.stages[at], task, chunk, size == 1);
    arrive_with_copies(&sm.full[at]);
    if (first_warp) scan_gates(sm.stages[at], decays);
    arrive(&sm.full[at]);
  }
}

// A warp's 16 columns of S times a unit each. Of the keys, or tokens, 8 n .. + 7 a lane has 8 n +
// lane % 4 * 2 and the next, of column lane / 4 and then of lane / 4 + 8; so are all sums dealt.
struct ScanState {
  float s[16][4];
  float unit[2];
};
FN float* scan_address(const GdnScanParams& a, const ScanTask& task, int slot, uint n, uint e) {
  const uint lane = threadIdx.x % 32, key = 8 * n + lane % 4 * 2 + e % 2,
             column = task.first_column + threadIdx.x / 32 % 2 * 16 + lane / 4 + e / 2 * 8;
  return a.states + (ulong)(uint)slot * a.slot_floats + (task.head * 128 + key) * 128 + column;
}
FN void scan_load(const GdnScanParams& a, const ScanTask& task, int slot, ScanState& state) {
  state.unit[0] = state.unit[1] = 1.0f;
  UNROLL for (uint n = 0; n < 16; n++) {
    UNROLL for (uint e = 0; e < 4; e++) {
      state.s[n][e] = slot < 0 ? 0.0f : *scan_address(a, task, slot, n, e);
    }
  }
}
// Of a unit, which is a power of two.
FN float scan_inverse(float unit) {
  return as_type<float>(0x7f000000u - as_type<uint>(unit));
}
FN void scan_store(const GdnScanParams& a, const ScanTask& task, int slot, const ScanState& state) {
  const float to_one[2] = {scan_inverse(state.unit[0]), scan_inverse(state.unit[1])};
  UNROLL for (uint n = 0; n < 16; n++) {
    UNROLL for (uint e = 0; e < 4; e++) {
      *scan_address(a, task, slot, n, e) = state.s[n][e] * to_one[e / 2];
    }
  }
}

// The unit in which the largest of a column's numbers lies below 2^14. Columns of less than 2^-63
// come out as noughts.
template <uint kTiles>
FN void scan_units(const float (*x)[4], float* units) {
  UNROLL for (uint half = 0; half < 2; half++) {
    float most = 0.0f;
    UNROLL for (uint n = 0; n < kTiles; n++) {
      most = fmaxf(most, fmaxf(fabsf(x[n][2 * half]), fabsf(x[n][2 * half + 1])));
    }
    most = fmaxf(most, lanes_xor(most, 1));
    most = fmaxf(most, lanes_xor(most, 2));
    const uint exponent = as_type<uint>(fmaxf(most, 0x1p-63f)) & 0x7f800000u;
    units[half] = as_type<float>(((127u + 13u + 127u) << 23) - exponent);
  }
}
// Row of a matrix that the lane names: tokens 16 p .. + 15 at columns 16 step .. + 15.
template <uint kWidth>
FN const ushort* scan_tile(const ushort (*rows)[kWidth], uint p, uint step) {
  const uint lane = threadIdx.x % 32, matrix = lane / 8;
  return &rows[16 * p + matrix / 2 * 8 + lane % 8][16 * step + matrix % 2 * 8];
}

// sums [columns, tokens] of S and the tokens' k or q.
FN void scan_state_products(const ushort (*rows)[136], const ScanState& state, const float* units,
                            float (*sums)[4]) {
  UNROLL for (uint step = 0; step < 8; step++) {
    uint a[4], b[4];
    half_operand(&state.s[2 * step], units, a);
    UNROLL for (uint p = 0; p < 4; p++) {
      load_matrices(b, scan_tile(rows, p, step));
      mma_half(sums[2 * p], a, b[0], b[1]);
      mma_half(sums[2 * p + 1], a, b[2], b[3]);
    }
  }
}
FN void scan_zero(float (*x)[4]) {
  UNROLL for (uint j = 0; j < 8; j++) {
    UNROLL for (uint e = 0; e < 4; e++) x[j][e] = 0.0f;
  }
}
// c += x times the transpose of a matrix of tokens with those up to them.
FN void scan_mix(const ushort (*rows)[72], const float (*x)[4], const float* factors,
                 float (*c)[4]) {
  UNROLL for (uint step = 0; step < 4; step++) {
    uint a[4], b[4];
    half_operand(&x[2 * step], factors, a);
    UNROLL for (uint p = step; p < 4; p++) {
      load_matrices(b, scan_tile(rows, p, step));
      mma_half(c[2 * p], a, b[0], b[1]);
      mma_half(c[2 * p + 1], a, b[2], b[3]);
    }
  }
}
// S <- decay S + d k, in d's unit.
FN void scan_learn(const ScanStage& stage, ScanState& state, float (*d)[4], const float* units) {
  const uint lane = threadIdx.x % 32, matrix = lane / 8;
  UNROLL for (uint half = 0; half < 2; half++) {
    const float factor = stage.since[63] * (units[half] * scan_inverse(state.unit[half]));
    UNROLL for (uint n = 0; n < 16; n++) {
      state.s[n][2 * half] *= factor;
      state.s[n][2 * half + 1] *= factor;
    }
    state.unit[half] = units[half];
  }
  UNROLL for (uint j = 0; j < 8; j++) {
    const float2 until = *(const float2*)&stage.until[8 * j + lane % 4 * 2];
    UNROLL for (uint e = 0; e < 4; e++) d[j][e] *= e % 2 == 0 ? until.x : until.y;
  }
  UNROLL for (uint step = 0; step < 4; step++) {
    uint a[4], b[4];
    half_operand(&d[2 * step], units, a);
    UNROLL for (uint n = 0; n < 16; n += 2) {
      load_matrices_across(b,
                           &stage.k[16 * step + matrix % 2 * 8 + lane % 8][8 * n + matrix / 2 * 8]);
      mma_half(state.s[n], a, b[0], b[1]);
      mma_half(state.s[n + 1], a, b[2], b[3]);
    }
  }
}

// What decays until each of the lane's tokens, times k S or q S of S before the chunk.
FN void scan_from_state(const ScanStage& stage, const ushort (*rows)[136], const ScanState& state,
                        float (*sums)[4]) {
  const uint lane = threadIdx.x % 32;
  float units[2];
  scan_units<16>(state.s, units);
  scan_zero(sums);
  scan_state_products(rows, state, units, sums);
  UNROLL for (uint half = 0; half < 2; half++) {
    const float to_one = scan_inverse(units[half]) * scan_inverse(state.unit[half]);
    UNROLL for (uint j = 0; j < 8; j++) {
      const float2 since = *(const float2*)&stage.since[8 * j + lane % 4 * 2];
      sums[j][2 * half] *= since.x * to_one;
      sums[j][2 * half + 1] *= since.y * to_one;
    }
  }
}
FN void scan_scale(float (*x)[4], const float* factors) {
  UNROLL for (uint j = 0; j < 8; j++) {
    UNROLL for (uint e = 0; e < 4; e++) x[j][e] *= factors[e / 2];
  }
}
FN void scan_scale_back(float (*x)[4], const float* units) {
  const float factors[2] = {scan_inverse(units[0]), scan_inverse(units[1])};
  scan_scale(x, factors);
}
// Lets the warp of the same columns know d of chunk i, or waits for it.
FN void scan_tell(ScanShared& sm, uint i, const float (*d)[4]) {
  const uint lane = threadIdx.x % 32, pair = threadIdx.x / 32 % 2, turn = i % 2;
  arrival_wait(&sm.heard[turn][pair], (i / 2 & 1u) ^ 1u);
  UNROLL for (uint j = 0; j < 8; j++) {
    sm.d[turn][pair][j][lane] = make_float4(d[j][0], d[j][1], d[j][2], d[j][3]);
  }
  arrive(&sm.told[turn][pair]);
}
FN void scan_hear(ScanShared& sm, uint i, float (*d)[4]) {
  const uint lane = threadIdx.x % 32, pair = threadIdx.x / 32 % 2, turn = i % 2;
  arrival_wait(&sm.told[turn][pair], i / 2 & 1u);
  UNROLL for (uint j = 0; j < 8; j++) {
    const float4 x = sm.d[turn][pair][j][lane];
    d[j][0] = x.x, d[j][1] = x.y, d[j][2] = x.z, d[j][3] = x.w;
  }
  arrive(&sm.heard[turn][pair]);
}
// A chunk. Both kinds of warps go through the same instructions where they can: the two kinds' own
// would not fit the cache of instructions. o [16 columns, tokens], of those that answer.
FN void scan_step(ScanShared& sm, uint i, ScanState& state, bool answers, float (*o)[4]) {
  const ScanStage& stage = sm.stages[scan_stage_of(i)];
  const uint lane = threadIdx.x % 32, column = threadIdx.x / 32 % 2 * 16 + lane / 4;
  float units[2], x[8][4];
  scan_from_state(stage, answers ? stage.q : stage.k, state, o);
  if (answers) {
    scan_hear(sm, i, x);
  } else {
    UNROLL for (uint j = 0; j < 8; j++) {
      UNROLL for (uint e = 0; e < 4; e++) {
        x[j][e] = stage.v[8 * j + lane % 4 * 2 + e % 2][column + e / 2 * 8] - o[j][e];
        o[j][e] = 0.0f;
      }
    }
  }
  scan_units<8>(x, units);
  scan_scale(o, units);
  scan_mix(answers ? stage.m : stage.t, x, units, o);
  scan_scale_back(o, units);
  if (!answers) {
    scan_tell(sm, i, o);
    UNROLL for (uint j = 0; j < 8; j++) {
      UNROLL for (uint e = 0; e < 4; e++) x[j][e] = o[j][e];
    }
    scan_units<8>(x, units);
  }
  scan_learn(stage, state, x, units);
}
FN void scan_store_rows(const GdnScanParams& a, const ScanTask& task, const ScanChunk& chunk,
                        const float (*o)[4]) {
  const uint lane = threadIdx.x % 32,
             column = task.first_column + threadIdx.x / 32 % 2 * 16 + lane / 4;
  UNROLL for (uint j = 0; j < 8; j++) {
    UNROLL for (uint e = 0; e < 4; e++) {
      const uint t = 8 * j + lane % 4 * 2 + e % 2;
      if (t < chunk.n)
        a.y[((ulong)(chunk.row + t) * a.n_value_heads + task.head) * 128 + column + e / 2 * 8] =
            o[j][e];
    }
  }
}
// A computing warp's part of a segment, whose first chunk is number i.
FN void scan_segment(const GdnScanParams& a, ScanShared& sm, const ScanTask& task,
                     const PassBlock& segment, uint size, uint i) {
  const bool answers = threadIdx.x / 32 >= kScanWarps / 2;
  ScanState state;
  scan_load(a, task, segment.state_in, state);
  // Who learns may be done, and write, before the other has begun.
  asm volatile("bar.sync %0, 64;" ::"r"(1 + threadIdx.x / 32 % 2) : "memory");
  for (uint first = 0; first < segment.n; first += size, i++) {
    float o[8][4];
    arrival_wait(&sm.full[scan_stage_of(i)], scan_phase(i));
    scan_step(sm, i, state, answers, o);
    arrive(&sm.empty[scan_stage_of(i)]);
    if (answers) {
      scan_store_rows(a, task, scan_chunk(segment, first, size), o);
    } else if (segment.snapshots >= 0) {
      scan_store(a, task, segment.snapshots + (int)first, state);
    }
  }
  if (!answers) scan_store(a, task, segment.state_out, state);
}

FN void scan_prepare(ScanShared& sm) {
  if (threadIdx.x == 0) {
    for (uint s = 0; s < kScanStages; s++) {
      arrival_init(&sm.full[s], 2 * kScanCopiers);
      arrival_init(&sm.empty[s], kScanWarps * 32);
    }
    for (uint p = 0; p < 4; p++) {
      arrival_init(&sm.told[p / 2][p % 2], 32);
      arrival_init(&sm.heard[p / 2][p % 2], 32);
    }
  }
  group_barrier();
}

CUDA_KERNEL(delta_scan, GdnScanParams, kScanWarps * 32 + kScanCopiers, 1) {
  ScanShared& sm = *(ScanShared*)group_memory;
  scan_prepare(sm);
  const uint head = blockIdx.x / 4, heads = a.n_value_heads / a.n_key_heads;
  const ScanTask task = {head, head / heads, blockIdx.x % 4 * 32, head % heads};
  const uint n_segments = pass_segments(a.control);
  for (uint s = 0, i = 0; s < n_segments; s++) {
    PassBlock segment;
    pass_segment(a.control, s, segment);
    if (segment.n == 0) continue;
    const uint size = segment.snapshots >= 0 ? 1 : kChunkTokens;
    if (threadIdx.x / 32 < kScanWarps) {
      scan_segment(a, sm, task, segment, size, i);
    } else {
      scan_feed(a, sm, task, segment, size, i);
    }
    i += (segment.n + size - 1) / size;
  }
}
