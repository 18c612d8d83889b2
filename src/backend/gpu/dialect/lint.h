// The kernel language as C++ for OpenCL: stock clang then checks address spaces as Apple's compiler
// does. Declarations only, nothing runs. Only for dialect.h; tests/gpu/lint says how it is called.
#pragma once

#define FN static inline
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("nounroll")
#define KERNEL_CONST __constant constexpr

struct Ids {
  uint3 group, groups;
  uint threads;
  ushort tid, lane, simd;
};

#define KERNEL(name, Args, Shared, max_threads)                                              \
  static_assert(sizeof(Shared) <= 32768 && (max_threads) % 32 == 0 && (max_threads) <= 1024, \
                "kernel limits");                                                            \
  FN void name##_body(CON Args& a, TG Shared& sm, const THR Ids& id);                        \
  __kernel void name(CON Args* a, uint3 group, uint3 groups, uint threads, ushort tid,       \
                     ushort lane, ushort simd) {                                             \
    TG Shared sm;                                                                            \
    const Ids id = {group, groups, threads, tid, lane, simd};                                \
    name##_body(*a, sm, id);                                                                 \
  }                                                                                          \
  FN void name##_body(CON Args& a, TG Shared& sm, const THR Ids& id)

uint2 make_uint2(uint x, uint y);
uint4 make_uint4(uint x, uint y, uint z, uint w);
float2 make_float2(float x, float y);
float4 make_float4(float x, float y, float z, float w);

template <class To, class From>
FN To as_type(From from) {
  return __builtin_astype(from, To);
}

float m_fma(float x, float y, float z);
float m_sqrt(float x);
float m_sin(float x);
float m_cos(float x);
float m_floor(float x);

void group_barrier();
void group_barrier_device();
void lanes_barrier();
uint this_lane();
float lanes_xor(float v, uint m);
uint lanes_xor(uint v, uint m);
float lanes_read(float v, uint l);
uint lanes_read(uint v, uint l);
uint counter_add(DEV counter* p, uint n);
uint counter_add(TG counter* p, uint n);

struct TileA {
  uint r[4];
};
struct TileB {
  uint r[8];
};
struct TileC {
  float r[16];
};
void tile_zero(THR TileC& c);
void tile_load_a(THR TileA& a, TG const ushort* p, uint ld);
void tile_load_bt(THR TileB& b, TG const ushort* p, uint ld);
void tile_mma(THR TileC& c, const THR TileA& a, const THR TileB& b);
void tile_store(const THR TileC& c, TG float* p, uint ld);
