// The kernel language as CUDA. Only for dialect.h. Build with -fmad=false: a product and a sum
// become one rounding only where m_fma says so.
#pragma once

#include <cstdint>

#define FN static __device__ __forceinline__
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#define KERNEL_CONST static __device__ constexpr

struct Ids {
  uint3 group, groups;
  uint threads;
  ushort tid, lane, simd;
};

#define KERNEL(name, Args, Shared, max_threads)                                                    \
  static_assert(sizeof(Shared) <= 32768 && (max_threads) % 32 == 0 && (max_threads) <= 1024,       \
                "kernel limits");                                                                  \
  FN void name##_body(const Args& a, Shared& sm, const Ids& id);                                   \
  extern "C" __global__ void __launch_bounds__(max_threads) name(const __grid_constant__ Args a) { \
    __shared__ Shared sm;                                                                          \
    const Ids id = {blockIdx,                                                                      \
                    {gridDim.x, gridDim.y, gridDim.z},                                             \
                    blockDim.x,                                                                    \
                    (ushort)threadIdx.x,                                                           \
                    (ushort)(threadIdx.x & 31u),                                                   \
                    (ushort)(threadIdx.x >> 5)};                                                   \
    name##_body(a, sm, id);                                                                        \
  }                                                                                                \
  FN void name##_body(const Args& a, Shared& sm, const Ids& id)

template <class To, class From>
FN To as_type(From from) {
  static_assert(sizeof(To) == sizeof(From), "as_type keeps the size");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

FN float m_fma(float x, float y, float z) {
  return __fmaf_rn(x, y, z);
}
FN float m_sqrt(float x) {
  return __fsqrt_rn(x);
}
FN float m_sin(float x) {
  return sinf(x);
}
FN float m_cos(float x) {
  return cosf(x);
}
FN float m_floor(float x) {
  return floorf(x);
}

FN void group_barrier() {
  __syncthreads();
}
FN void group_barrier_device() {
  __syncthreads();
}
FN void lanes_barrier() {
  __syncwarp();
}
FN uint this_lane() {
  return threadIdx.x & 31u;
}
FN float lanes_xor(float v, uint m) {
  return __shfl_xor_sync(0xffffffffu, v, m);
}
FN uint lanes_xor(uint v, uint m) {
  return __shfl_xor_sync(0xffffffffu, v, m);
}
FN float lanes_read(float v, uint l) {
  return __shfl_sync(0xffffffffu, v, l & 31u);
}
FN uint lanes_read(uint v, uint l) {
  return __shfl_sync(0xffffffffu, v, l & 31u);
}
FN uint counter_add(counter* p, uint n) {
  return atomicAdd(p, n);
}

// ---- tile layer: two k-halves of a row in a register pair, as mma.sync.m16n8k16 deals them out:
// lane = 4 g + t.
struct TileA {
  uint r[4];  // rows g, g + 8 at columns 2t, 2t + 1; the same rows at columns 8 + 2t, 9 + 2t
};
struct TileB {
  uint r[4][2];  // per 8 columns j: column g, rows 2t, 2t + 1; rows 8 + 2t, 9 + 2t
};
struct TileC {
  float r[4][4];  // per 8 columns j: row g at columns 2t, 2t + 1; row g + 8 at the same
};
FN void tile_zero(TileC& c) {
  UNROLL for (int j = 0; j < 4; j++) {
    UNROLL for (int i = 0; i < 4; i++) c.r[j][i] = 0.0f;
  }
}
FN void tile_load_a(TileA& a, const ushort* p, uint ld) {
  const uint g = (threadIdx.x & 31u) >> 2, t = threadIdx.x & 3u;
  p += g * ld + 2 * t;
  a.r[0] = *(const uint*)p;
  a.r[1] = *(const uint*)(p + 8 * ld);
  a.r[2] = *(const uint*)(p + 8);
  a.r[3] = *(const uint*)(p + 8 * ld + 8);
}
FN void tile_load_bt(TileB& b, const ushort* p, uint ld) {
  const uint g = (threadIdx.x & 31u) >> 2, t = threadIdx.x & 3u;
  p += g * ld + 2 * t;
  UNROLL for (int j = 0; j < 4; j++) {
    b.r[j][0] = *(const uint*)(p + 8 * j * ld);
    b.r[j][1] = *(const uint*)(p + 8 * j * ld + 8);
  }
}
FN void tile_mma(TileC& c, const TileA& a, const TileB& b) {
  UNROLL for (int j = 0; j < 4; j++) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c.r[j][0]), "+f"(c.r[j][1]), "+f"(c.r[j][2]), "+f"(c.r[j][3])
        : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[j][0]), "r"(b.r[j][1]));
  }
}
FN void tile_store(const TileC& c, float* p, uint ld) {
  const uint g = (threadIdx.x & 31u) >> 2, t = threadIdx.x & 3u;
  UNROLL for (int j = 0; j < 4; j++) {
    float* q = p + g * ld + 8 * j + 2 * t;
    q[0] = c.r[j][0];
    q[1] = c.r[j][1];
    q[8 * ld] = c.r[j][2];
    q[8 * ld + 1] = c.r[j][3];
  }
}
