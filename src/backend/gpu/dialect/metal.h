// The kernel language as Metal 3.2 and later. Only for dialect.h. Kept to constructs that widely
// used Metal code relies on, since no Mac has compiled it yet. To be built in safe math mode.
#pragma once

#include <metal_atomic>
#include <metal_simdgroup>
#include <metal_simdgroup_matrix>

using namespace metal;

#define FN static inline
#define UNROLL _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("clang loop unroll(disable)")
#define KERNEL_CONST constant constexpr

struct Ids {
  uint3 group, groups;
  uint threads;
  ushort tid, lane, simd;
};

#define KERNEL(name, Args, Shared, max_threads)                                                 \
  static_assert(sizeof(Shared) <= 32768 && (max_threads) % 32 == 0 && (max_threads) <= 1024,    \
                "kernel limits");                                                               \
  FN void name##_body(constant Args& a, threadgroup Shared& sm, const thread Ids& id);          \
  [[kernel, max_total_threads_per_threadgroup(max_threads)]] void name(                         \
      constant Args& a [[buffer(0)]], uint3 group [[threadgroup_position_in_grid]],             \
      uint3 groups [[threadgroups_per_grid]], uint3 threads [[threads_per_threadgroup]],        \
      uint thread_idx [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]], \
      uint simd [[simdgroup_index_in_threadgroup]]) {                                           \
    threadgroup Shared sm;                                                                      \
    const Ids id = {group, groups, threads.x, (ushort)thread_idx, (ushort)lane, (ushort)simd};  \
    name##_body(a, sm, id);                                                                     \
  }                                                                                             \
  FN void name##_body(constant Args& a, threadgroup Shared& sm, const thread Ids& id)

FN uint2 make_uint2(uint x, uint y) {
  return uint2(x, y);
}
FN uint4 make_uint4(uint x, uint y, uint z, uint w) {
  return uint4(x, y, z, w);
}
FN float2 make_float2(float x, float y) {
  return float2(x, y);
}
FN float4 make_float4(float x, float y, float z, float w) {
  return float4(x, y, z, w);
}

FN float m_fma(float x, float y, float z) {
  return fma(x, y, z);
}
FN float m_sqrt(float x) {
  return precise::sqrt(x);
}
FN float m_sin(float x) {
  return precise::sin(x);
}
FN float m_cos(float x) {
  return precise::cos(x);
}
FN float m_floor(float x) {
  return floor(x);
}

FN void group_barrier() {
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
FN void group_barrier_device() {
  threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
}
FN void lanes_barrier() {
  simdgroup_barrier(mem_flags::mem_threadgroup);
}
FN uint this_lane() {
  return simd_prefix_exclusive_sum(1u);
}
FN float lanes_xor(float v, uint m) {
  return simd_shuffle_xor(v, (ushort)m);
}
FN uint lanes_xor(uint v, uint m) {
  return simd_shuffle_xor(v, (ushort)m);
}
FN float lanes_read(float v, uint l) {
  return simd_shuffle(v, (ushort)(l & 31u));
}
FN uint lanes_read(uint v, uint l) {
  return simd_shuffle(v, (ushort)(l & 31u));
}
FN uint counter_add(device counter* p, uint n) {
  return atomic_fetch_add_explicit(p, n, memory_order_relaxed);
}
FN uint counter_add(threadgroup counter* p, uint n) {
  return atomic_fetch_add_explicit(p, n, memory_order_relaxed);
}

#if defined(LILY_METAL_TENSOR_OPS)
// ---- tile layer on the matrix units of the M5 (Metal 4): one matmul2d of 16 x 32 x 16. The
// operands are read when they are multiplied.
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
#include <metal_tensor>

constexpr constant auto kTileProduct = mpp::tensor_ops::matmul2d_descriptor(
    16, 32, 16, false, true, false,
    mpp::tensor_ops::matmul2d_descriptor::mode::multiply_accumulate);
typedef mpp::tensor_ops::matmul2d<kTileProduct, execution_simdgroup> TileProduct;
typedef tensor<threadgroup bfloat, dextents<int, 2>, tensor_inline> TileOperand;
typedef tensor<threadgroup float, dextents<int, 2>, tensor_inline> TileResult;
struct TileA {
  threadgroup bfloat* p;
  uint ld;
};
struct TileB {
  threadgroup bfloat* p;
  uint ld;
};
struct TileC {
  decltype(TileProduct()
               .get_destination_cooperative_tensor<TileOperand, TileOperand, float>()) sums;
};
FN void tile_zero(thread TileC& c) {
  for (uint16_t i = 0; i < c.sums.get_capacity(); i++) c.sums[i] = 0.0f;
}
FN void tile_load_a(thread TileA& a, threadgroup const ushort* p, uint ld) {
  a.p = (threadgroup bfloat*)p;
  a.ld = ld;
}
FN void tile_load_bt(thread TileB& b, threadgroup const ushort* p, uint ld) {
  b.p = (threadgroup bfloat*)p;
  b.ld = ld;
}
FN void tile_mma(thread TileC& c, const thread TileA& a, const thread TileB& b) {
  TileOperand left(a.p, dextents<int, 2>(16, 16), array<int, 2>{1, (int)a.ld});
  TileOperand right(b.p, dextents<int, 2>(16, 32), array<int, 2>{1, (int)b.ld});
  TileProduct().run(left, right, c.sums);
}
FN void tile_store(thread TileC& c, threadgroup float* p, uint ld) {
  TileResult to(p, dextents<int, 2>(32, 16), array<int, 2>{1, (int)ld});
  c.sums.store(to);
}
#else
// ---- tile layer on simdgroup matrices, 8 x 8 each.
struct TileA {
  simdgroup_matrix<bfloat, 8, 8> m[2][2];
};
struct TileB {
  simdgroup_matrix<bfloat, 8, 8> m[2][4];
};
struct TileC {
  simdgroup_matrix<float, 8, 8> m[2][4];
};
FN void tile_zero(thread TileC& c) {
  UNROLL for (uint i = 0; i < 2; i++) {
    UNROLL for (uint j = 0; j < 4; j++) c.m[i][j] = make_filled_simdgroup_matrix<float, 8>(0.0f);
  }
}
FN void tile_load_a(thread TileA& a, threadgroup const ushort* p, uint ld) {
  threadgroup const bfloat* from = (threadgroup const bfloat*)p;
  UNROLL for (uint i = 0; i < 2; i++) {
    UNROLL for (uint k = 0; k < 2; k++) simdgroup_load(a.m[i][k], from + i * 8 * ld + k * 8, ld);
  }
}
FN void tile_load_bt(thread TileB& b, threadgroup const ushort* p, uint ld) {
  threadgroup const bfloat* from = (threadgroup const bfloat*)p;
  UNROLL for (uint k = 0; k < 2; k++) {
    UNROLL for (uint j = 0; j < 4; j++) {
      simdgroup_load(b.m[k][j], from + j * 8 * ld + k * 8, ld, ulong2(0, 0), true);
    }
  }
}
FN void tile_mma(thread TileC& c, const thread TileA& a, const thread TileB& b) {
  UNROLL for (uint k = 0; k < 2; k++) {
    UNROLL for (uint i = 0; i < 2; i++) {
      UNROLL for (uint j = 0; j < 4; j++) {
        simdgroup_multiply_accumulate(c.m[i][j], a.m[i][k], b.m[k][j], c.m[i][j]);
      }
    }
  }
}
FN void tile_store(const thread TileC& c, threadgroup float* p, uint ld) {
  UNROLL for (uint i = 0; i < 2; i++) {
    UNROLL for (uint j = 0; j < 4; j++) simdgroup_store(c.m[i][j], p + i * 8 * ld + j * 8, ld);
  }
}
#endif
