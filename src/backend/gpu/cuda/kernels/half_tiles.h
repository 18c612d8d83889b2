// Products of weight rows of 4 or 8 bits with a row of activations on the matrix units, for few
// rows of activations. Included after dialect.h and stage.h.
//
// Activations: per 64 columns one fp32 scale, and per column the nearest fp16 number and that of
// what it leaves, so 22 bits. A code is an fp16 number as it stands: below the least normal one
// they count in steps, so codes cost one mask a pair. A warp multiplies tiles of 16 weight rows
// with the columns of one part, 256 of them (or kHalves of two). The matrix unit's right operand
// has 8 columns: the two planes of activations of each of the part's four groups of 64, and noughts
// where a row of it belongs to another group. So a lane gets both planes' sums of one group for two
// rows, and nothing is multiplied twice. The four groups of a part are added in fp32 as a
// butterfly, parts in order of columns: a row's sum depends on the two rows alone. Tried and lost,
// for 96 rows of 2,048 by a multiprocessor: dp4a on two planes of int8, 4,100 cycles; the matrix
// unit's int8 (m16n8k32 takes 29 cycles on Hopper), 2,840. Widths are constants, since what is left
// is the number of instructions.
#pragma once

#include "backend/gpu/cuda/kernels/arrivals.h"
#include "backend/gpu/cuda/kernels/halves.h"
#include "backend/gpu/cuda/kernels/stage.h"

KERNEL_CONST uint kTileThreads = 512, kTileWarps = 16;  // cuda/lowering.cc has them too.

// A row of activations in shared memory. A run is what 16 bytes of codes meet, 32 or 16 columns: of
// each plane the numbers in pairs as masks deliver codes, which are, of 4 bits, the j-th and the j
// + 4-th of 8, odd j a sixteenth; of bytes, the j-th and the j + 2-nd of 4; and 16 bytes between
// banks. Then (scale, sum) of each group of 64.
template <uint kBits>
FN uint run_columns() {
  return 128 / kBits;
}
template <uint kBits>
FN uint run_bytes() {
  return run_columns<kBits>() * 4 + 16;
}
struct TileRow {
  uchar* planes;
  float2* groups;
};
template <uint kBits>
FN uint tile_row_bytes(uint cols) {
  return cols / run_columns<kBits>() * run_bytes<kBits>() + cols / 64 * 8;
}
template <uint kBits>
FN TileRow tile_row(uchar* at, uint cols) {
  return {at, (float2*)(at + cols / run_columns<kBits>() * run_bytes<kBits>())};
}
// v: columns i .. i + 7; the 8 lanes of a group come together.
template <uint kBits>
FN void store_columns(const TileRow& to, uint i, const float* v) {
  const float kTop = 32768.0f;
  float most = 0.0f;
  UNROLL for (uint e = 0; e < 8; e++) most = fmaxf(most, fabsf(v[e]));
  UNROLL for (uint m = 4; m > 0; m >>= 1) most = fmaxf(most, lanes_xor(most, m));
  float sum = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
  UNROLL for (uint m = 1; m <= 4; m <<= 1) sum += lanes_xor(sum, m);
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(most));
  inverse = most > 1e-30f ? inverse * kTop : 0.0f;
  uint high[4], low[4];
  UNROLL for (uint j = 0; j < 4; j++) {
    const float factor = kBits == 8 || j % 2 == 0 ? inverse : inverse * 0.0625f;
    const uint e = kBits == 8 ? j / 2 * 4 + j % 2 : j;
    const float a = v[e] * factor, b = v[kBits == 8 ? e + 2 : e + 4] * factor;
    high[j] = pair_half(a, b);
    low[j] = pair_half(a - half_lo(high[j]), b - half_hi(high[j]));
  }
  const uint columns = run_columns<kBits>();
  uchar* at = to.planes + i / columns * run_bytes<kBits>() + i % columns * 2;
  *(uint4*)at = make_uint4(high[0], high[1], high[2], high[3]);
  *(uint4*)(at + columns * 2) = make_uint4(low[0], low[1], low[2], low[3]);
  // Codes count in steps of 2^-24.
  if (i % 64 == 0) to.groups[i / 64] = make_float2(most * (0x1p24f / kTop), sum);
}
FN void load_columns(const float* x, float* v) {
  const float4 a = load_fresh4(x), b = load_fresh4(x + 4);
  v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

// The thread's 8 weights of a norm over at most 2,048 columns.
FN void load_norm_weights(const float* norm, uint cols, float* weights) {
  const uint i = threadIdx.x * 8;
  UNROLL for (uint e = 0; e < 8; e++) weights[e] = i < cols ? norm[i + e] : 0.0f;
}
FN float approximate_rsqrt(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// How a row becomes what is multiplied: as it is; times the thread's 8 weights of a norm, whose
// factor comes later; or its heads of 128 columns each over their root mean squares.
enum TileInput { kPlainInput, kNormInput, kHeadsInput };
struct TileScaling {
  const float* norm;
  float* squares;             // [8], of the row: a sum a warp.
  const float* head_squares;  // [heads, 4], of the row.
  float eps;
};
// A row of a multiple of 256 columns, 8 a thread; at most 2,048 for kNormInput, else 4,096. Ends
// without a barrier.
template <uint kInput, uint kBits>
FN void store_tile_row(const TileRow& to, const float* x, uint cols, const TileScaling& scaling) {
  const uint i = threadIdx.x * 8;
  if (i >= cols) return;  // The same for a warp.
  float v[8];
  load_columns(x + i, v);
  if (kInput == kNormInput) {
    float square = 0.0f;
    UNROLL for (uint e = 0; e < 8; e++) {
      square = m_fma(v[e], v[e], square);
      v[e] *= scaling.norm[e];
    }
    square = lanes_sum(square);
    if (threadIdx.x % 32 == 0) scaling.squares[threadIdx.x / 32] = square;
  }
  if (kInput == kHeadsInput) {
    const float4 s = load_fresh4(scaling.head_squares + i / 128 * 4);
    const float factor =
        approximate_rsqrt(((s.x + s.y) + (s.z + s.w)) * (1.0f / 128) + scaling.eps);
    UNROLL for (uint e = 0; e < 8; e++) v[e] *= factor;
  }
  store_columns<kBits>(to, i, v);
}
// 1 / root mean square, of store_tile_row's squares.
template <uint kCols>
FN float tile_norm_factor(const float* squares, float eps) {
  float sum = 0.0f;
  UNROLL for (uint w = 0; w < kCols / 256; w++) sum += squares[w];
  return approximate_rsqrt(sum * (1.0f / kCols) + eps);
}

// ---- weights in shared memory: quads of four rows' codes, 64 bytes between them, which sets the
// quads that are read side by side half of the banks apart; then each quad's scales and its biases.
// They come by the copy engine: copies that threads make, cp.async, wait for memory in the queue
// that all reads of a multiprocessor go through, also those of the launch before.
template <uint kCols, uint kBits = 4>
struct Quads {
  static constexpr uint kRow = kCols * kBits / 8, kCodes = 4 * kRow + 64;
  static constexpr uint kSide = kCols / 8, kSides = 2 * kSide + 16;  // kSide: a quad's scales.
  static constexpr uint kCopied = 4 * kRow + 2 * kSide, kBytes = kCodes + kSides;
};
struct QuadPlace {
  uchar *codes, *sides;  // Of all quads.
};
template <uint kCols, uint kBits = 4>
FN QuadPlace quad_place(uchar* at, uint n_quads) {
  return {at, at + n_quads * Quads<kCols, kBits>::kCodes};
}

// By the copy engine; `arrival` expects as many.
FN void copy_bulk(void* to, const void* from, uint bytes, ulong* arrival) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(arrival))
      : "memory");
}
// A copy is 16 bytes at least; behind the last row's sides nobody minds.
template <uint kCols, uint kBits>
FN uint copied_bytes(uint rows) {
  using Q = Quads<kCols, kBits>;
  return rows * Q::kRow + 2 * u_max(rows * (Q::kSide / 4), 16u);
}
struct QuadMatrix {
  const uint* codes;
  const ushort *scales, *biases;
};
// Rows `row` .. of a matrix, `rows` of them, as rows at .. of quad `quad`, by lanes `lane` 0 .. 2.
// Of one warp's lanes the copies are asked for one after the other: warps share them.
template <uint kCols, uint kBits>
FN void copy_quad(const QuadPlace& to, uint quad, uint at, const QuadMatrix& m, ulong row,
                  uint rows, ulong* arrival, uint lane) {
  using Q = Quads<kCols, kBits>;
  if (lane == 0) {
    copy_bulk(to.codes + quad * Q::kCodes + at * Q::kRow, (const uchar*)m.codes + row * Q::kRow,
              rows * Q::kRow, arrival);
  } else if (lane < 3) {
    const ushort* sides = lane == 1 ? m.scales : m.biases;
    copy_bulk(to.sides + quad * Q::kSides + (lane - 1) * Q::kSide + at * (Q::kSide / 4),
              (const uchar*)sides + row * (Q::kSide / 4), u_max(rows * (Q::kSide / 4), 16u),
              arrival);
  }
}

// ---- products
// The lane's operands of a part: one plane of its columns of one group, or noughts; scale and sum
// of the group whose sums it gets.
struct TileColumns {
  uint4 x[4];
  float2 scale_sum;
};
template <uint kHalves, uint kBits>
FN void load_tile_columns(const TileRow& row, uint part, uint lane, TileColumns& c) {
  const uint plane = lane / 4 % 2, group = lane / 8, t = lane % 4, half = group / 2;
  const uint plane_bytes = run_columns<kBits>() * 2;
  UNROLL for (uint i = 0; i < 4; i++) c.x[i] = make_uint4(0, 0, 0, 0);
  if (kBits == 8) {
    const uint4* from = (const uint4*)(row.planes + (part * 16 + group * 4 + t) * run_bytes<8>() +
                                       plane * plane_bytes);
    c.x[0] = from[0], c.x[1] = from[1];
  } else if (t / 2 == group % 2 && half < kHalves) {
    const uint4* from =
        (const uint4*)(row.planes + ((part * kHalves + half) * 4 + t) * run_bytes<4>() +
                       plane * plane_bytes);
    UNROLL for (uint i = 0; i < 4; i++) c.x[i] = from[i];
  }
  c.scale_sum = row.groups[part * kHalves * 2 + t % (kHalves * 2)];
}
// c += rows of codes p and q, in pairs as kMask and kShifted leave them, with two pairs of columns.
template <uint kMask, uint kNextMask, uint kNextShift>
FN void mma_codes(float* c, uint p, uint q, uint b0, uint b1) {
  const uint codes[] = {p & kMask, q & kMask, (p >> kNextShift) & kNextMask,
                        (q >> kNextShift) & kNextMask};
  mma_half(c, codes, b0, b1);
}
FN uint tile_word(const uint4& v, uint i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}
// What the lane reads of a tile, which is four quads: rows r and r + 2 of quad q, with r = lane /
// 16 and q = lane / 4 % 4.
struct TilePlace {
  const uchar *codes, *sides;
};
template <uint kCols, uint kHalves, uint kBits>
FN TilePlace tile_place(const QuadPlace& quads, uint first_quad, uint part, uint lane) {
  using Q = Quads<kCols, kBits>;
  const uint quad = first_quad + lane / 4 % 4, r = lane / 16, t = lane % 4;
  return {quads.codes + quad * Q::kCodes + r * Q::kRow + part * kHalves * kBits * 16 + t * 16,
          quads.sides + quad * Q::kSides + r * (Q::kSide / 4) +
              (part * kHalves * 2 + t % (kHalves * 2)) * 2};
}
// c [kSums] of the part with the lane's two rows; what the matrix unit's columns of other groups
// give is not looked at. Of 4 bits a sum holds two groups, of 8 bits one.
template <uint kCols, uint kBits, uint kSums>
FN void tile_products(const uchar* codes, const TileColumns& x, float (*c)[4]) {
  UNROLL for (uint n = 0; n < kSums; n++) {
    const uint4 w = *(const uint4*)(codes + n * 64),
                v = *(const uint4*)(codes + n * 64 + 2 * Quads<kCols, kBits>::kRow);
    UNROLL for (uint i = 0; i < 4; i++) c[n][i] = 0.0f;
    UNROLL for (uint i = 0; i < 4; i++) {
      const uint p = tile_word(w, i), q = tile_word(v, i);
      if (kBits == 4) {
        mma_codes<0x000f000f, 0x00f000f0, 0>(c[n], p, q, x.x[i].x, x.x[i].y);
        mma_codes<0x000f000f, 0x00f000f0, 0>(c[n], p >> 8, q >> 8, x.x[i].z, x.x[i].w);
      } else {
        const uint4 b = x.x[i / 2];
        mma_codes<0x00ff00ff, 0x00ff00ff, 8>(c[n], p, q, i % 2 == 0 ? b.x : b.z,
                                             i % 2 == 0 ? b.y : b.w);
      }
    }
  }
}
// Sums of the part with the lane's two rows, the same in four lanes.
template <uint kCols, uint kHalves, uint kBits>
FN void tile_sums(const TilePlace& at, const TileColumns& x, uint lane, float* sums) {
  using Q = Quads<kCols, kBits>;
  constexpr uint kSums = kHalves * kBits / 4;
  float c[kSums][4];
  tile_products<kCols, kBits, kSums>(at.codes, x, c);
  const uint mine = lane % 4 * kSums / 4;  // The lane's group is in this one.
  UNROLL for (uint r = 0; r < 2; r++) {
    const uchar* side = at.sides + r * (Q::kSide / 2);
    float high = c[0][2 * r], low = c[0][2 * r + 1];
    UNROLL for (uint n = 1; n < kSums; n++) {
      high = mine == n ? c[n][2 * r] : high;
      low = mine == n ? c[n][2 * r + 1] : low;
    }
    float sum = m_fma(bf16_to_f(*(const ushort*)side) * x.scale_sum.x, high + low,
                      bf16_to_f(*(const ushort*)(side + Q::kSide)) * x.scale_sum.y);
    sum += lanes_xor(sum, 1);
    if (kHalves == 2) sum += lanes_xor(sum, 2);
    sums[r] = sum;
  }
}
// Quads first .. end - 1 with a part of the row: to [their rows], times factor.
template <uint kCols, uint kHalves, uint kBits>
FN void part_sums(const QuadPlace& quads, uint first, uint end, uint part, const TileRow& row,
                  float factor, uint lane, float* to) {
  using Q = Quads<kCols, kBits>;
  TileColumns x;
  load_tile_columns<kHalves, kBits>(row, part, lane, x);
  TilePlace at = tile_place<kCols, kHalves, kBits>(quads, first, part, lane);
  to += lane / 4 % 4 * 4 + lane / 16;
  ROLLED for (uint quad = first; quad < end; quad += 4) {
    float sums[2];
    tile_sums<kCols, kHalves, kBits>(at, x, lane, sums);
    if (lane % 4 == 0) {
      to[0] = sums[0] * factor;
      to[2] = sums[1] * factor;
    }
    at.codes += 4 * Q::kCodes;
    at.sides += 4 * Q::kSides;
    to += 16;
  }
}
// kParts parts' sums of a row, in order, `stride` floats from part to part.
template <uint kParts>
FN float row_sum(const float* sums, uint stride) {
  float sum = 0.0f;
  UNROLL for (uint p = 0; p < kParts; p++) sum += sums[p * stride];
  return sum;
}
