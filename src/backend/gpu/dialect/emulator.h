// The kernel language on a CPU: a lane is a fiber, meetings are calls into the emulator. Only for
// dialect.h.
//
// A kernel is compiled twice (kernel.h): for speed, and with LILY_GPU_OBSERVED and memory accesses
// turned into calls (emulator/observe.h).
#pragma once

#include <cmath>
#include <cstring>

#include "backend/gpu/emulator/lanes.h"
#include "backend/gpu/kernel.h"

#define FN static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("clang loop unroll(disable)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#define ROLLED _Pragma("GCC unroll 1")
#endif
#define KERNEL_CONST static constexpr

#if defined(LILY_GPU_OBSERVED)
extern "C" void lily_gpu_see(const void* address, unsigned long bytes, bool writes,
                             const void* instruction);
// A vector is one access, as on a device; of a plain copy compilers make one a component.
#define LILY_GPU_UNSEEN __attribute__((noinline, no_sanitize("thread")))
#define LILY_GPU_COPY(name, ...)                                                   \
  name() = default;                                                                \
  LILY_GPU_UNSEEN name(const name& v) {                                            \
    lily_gpu_see(&v, sizeof(name), false, __builtin_return_address(0));            \
    copy(v);                                                                       \
  }                                                                                \
  LILY_GPU_UNSEEN name& operator=(const name& v) {                                 \
    lily_gpu_see(&v, sizeof(name), false, __builtin_return_address(0));            \
    lily_gpu_see(this, sizeof(name), true, __builtin_return_address(0));           \
    copy(v);                                                                       \
    return *this;                                                                  \
  }                                                                                \
                                                                                   \
 private:                                                                          \
  __attribute__((always_inline, no_sanitize("thread"))) void copy(const name& v) { \
    __VA_ARGS__                                                                    \
  }
#else
#define LILY_GPU_COPY(name, ...) name() = default;
#endif
#define LILY_GPU_VECTOR2(name, type)         \
  struct name {                              \
    type x, y;                               \
    name(type x0, type y0) : x(x0), y(y0) {} \
    LILY_GPU_COPY(name, x = v.x; y = v.y;)   \
  };
#define LILY_GPU_VECTOR4(name, type)                                         \
  struct alignas(16) name {                                                  \
    type x, y, z, w;                                                         \
    name(type x0, type y0, type z0, type w0) : x(x0), y(y0), z(z0), w(w0) {} \
    LILY_GPU_COPY(name, x = v.x; y = v.y; z = v.z; w = v.w;)                 \
  };
LILY_GPU_VECTOR2(uint2, uint)
LILY_GPU_VECTOR2(float2, float)
LILY_GPU_VECTOR4(uint4, uint)
LILY_GPU_VECTOR4(float4, float)
struct uint3 {
  uint x, y, z;
};
FN uint2 make_uint2(uint x, uint y) {
  return {x, y};
}
FN uint4 make_uint4(uint x, uint y, uint z, uint w) {
  return {x, y, z, w};
}
FN float2 make_float2(float x, float y) {
  return {x, y};
}
FN float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}

struct Ids {
  uint3 group, groups;
  uint threads;
  ushort tid, lane, simd;
};

#if defined(LILY_GPU_OBSERVED)
#define LILY_GPU_ENTRY(name) observed_##name
#else
#define LILY_GPU_ENTRY(name) plain_##name
#endif
#define KERNEL(name, Args, Shared, max_threads)                                               \
  static_assert(sizeof(Shared) <= 32768 && (max_threads) % 32 == 0 && (max_threads) <= 1024,  \
                "kernel limits");                                                             \
  static void name##_body(const Args& a, Shared& sm, const Ids& id);                          \
  static void name##_lane(const void* args, void* shared, const ::lily::gpu::LaneIds& r) {    \
    const Ids id = {{r.group[0], r.group[1], r.group[2]},                                     \
                    {r.groups[0], r.groups[1], r.groups[2]},                                  \
                    r.threads,                                                                \
                    r.thread,                                                                 \
                    r.lane,                                                                   \
                    r.simd};                                                                  \
    name##_body(*static_cast<const Args*>(args), *static_cast<Shared*>(shared), id);          \
  }                                                                                           \
  extern const ::lily::gpu::KernelEntry LILY_GPU_ENTRY(name);                                 \
  const ::lily::gpu::KernelEntry LILY_GPU_ENTRY(name) = {#name, sizeof(Args), sizeof(Shared), \
                                                         max_threads, name##_lane};           \
  static void name##_body([[maybe_unused]] const Args& a, [[maybe_unused]] Shared& sm,        \
                          [[maybe_unused]] const Ids& id)

template <class To, class From>
FN To as_type(From from) {
  static_assert(sizeof(To) == sizeof(From), "as_type keeps the size");
  return __builtin_bit_cast(To, from);
}

FN float m_fma(float x, float y, float z) {
  return __builtin_fmaf(x, y, z);
}
FN float m_sqrt(float x) {
  return __builtin_sqrtf(x);
}
FN float m_sin(float x) {
  return std::sin(x);
}
FN float m_cos(float x) {
  return std::cos(x);
}
FN float m_floor(float x) {
  return std::floor(x);
}

// The place of the call, not of the line below: default arguments are evaluated there.
#define LILY_GPU_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

FN void group_barrier(LILY_GPU_HERE) {
  ::lily::gpu::meet_group({"group_barrier", file, line});
}
FN void group_barrier_device(LILY_GPU_HERE) {
  ::lily::gpu::meet_group({"group_barrier_device", file, line});
}
FN void lanes_barrier(LILY_GPU_HERE) {
  ::lily::gpu::meet_lanes_in_order({"lanes_barrier", file, line});
}

FN uint this_lane() {
  return ::lily::gpu::current_lane();
}

// What lanes bring is read and written by the last of them on behalf of all, in functions that no
// sanitizer looks into: on a device these are registers.
#define LILY_GPU_COMBINE \
  static __attribute__((no_sanitize("thread", "address", "undefined"), noinline, unused))

struct LaneWord {
  uint value, index;
};
LILY_GPU_COMBINE void combine_read(void* const* brought) {
  uint values[32];
  for (uint l = 0; l < 32; l++) values[l] = static_cast<const LaneWord*>(brought[l])->value;
  for (uint l = 0; l < 32; l++) {
    LaneWord* word = static_cast<LaneWord*>(brought[l]);
    word->value = values[word->index];
  }
}
FN uint lanes_pick(uint v, uint from, const char* what, const char* file, int line) {
  LaneWord word = {v, from & 31u};
  ::lily::gpu::meet_lanes(&word, combine_read, {what, file, line});
  return word.value;
}
FN uint lanes_xor(uint v, uint m, LILY_GPU_HERE) {
  return lanes_pick(v, ::lily::gpu::current_lane() ^ m, "lanes_xor", file, line);
}
FN float lanes_xor(float v, uint m, LILY_GPU_HERE) {
  return as_type<float>(lanes_xor(as_type<uint>(v), m, file, line));
}
FN uint lanes_read(uint v, uint l, LILY_GPU_HERE) {
  return lanes_pick(v, l, "lanes_read", file, line);
}
FN float lanes_read(float v, uint l, LILY_GPU_HERE) {
  return as_type<float>(lanes_read(as_type<uint>(v), l, file, line));
}

// The butterflies of common.h in one meeting: same additions, a fifth of the switches.
#define LILY_GPU_OWN_SUMS
template <class T, class Add>
FN void butterfly(void* const* brought, Add add) {
  T v[32], next[32];
  for (uint l = 0; l < 32; l++) v[l] = *static_cast<const T*>(brought[l]);
  for (uint m = 16; m > 0; m >>= 1) {
    for (uint l = 0; l < 32; l++) next[l] = add(v[l], v[l ^ m]);
    for (uint l = 0; l < 32; l++) v[l] = next[l];
  }
  for (uint l = 0; l < 32; l++) *static_cast<T*>(brought[l]) = v[l];
}
LILY_GPU_COMBINE void combine_sum(void* const* brought) {
  butterfly<float>(brought, [](float x, float y) { return x + y; });
}
LILY_GPU_COMBINE void combine_uint_sum(void* const* brought) {
  butterfly<uint>(brought, [](uint x, uint y) { return x + y; });
}
LILY_GPU_COMBINE void combine_max(void* const* brought) {
  butterfly<float>(brought, [](float x, float y) { return x > y ? x : y; });
}
FN float lanes_sum(float v, LILY_GPU_HERE) {
  ::lily::gpu::meet_lanes(&v, combine_sum, {"lanes_sum", file, line});
  return v;
}
FN uint lanes_sum(uint v, LILY_GPU_HERE) {
  ::lily::gpu::meet_lanes(&v, combine_uint_sum, {"lanes_sum", file, line});
  return v;
}
FN float lanes_max(float v, LILY_GPU_HERE) {
  ::lily::gpu::meet_lanes(&v, combine_max, {"lanes_max", file, line});
  return v;
}

FN uint counter_add(counter* p, uint n) {
  return __atomic_fetch_add(p, n, __ATOMIC_RELAXED);
}

// ---- tile layer: element e of lane l is number 32 e + l of the tile, row by row (b: of its
// transpose).
struct TileA {
  ushort r[8];
};
struct TileB {
  ushort r[16];
};
struct TileC {
  float r[16];
};
FN void tile_zero(TileC& c) {
  for (float& v : c.r) v = 0.0f;
}
FN void tile_load_a(TileA& a, const ushort* p, uint ld) {
  const uint lane = ::lily::gpu::current_lane();
  for (uint e = 0; e < 8; e++) a.r[e] = p[(32 * e + lane) / 16 * ld + lane % 16];
}
FN void tile_load_bt(TileB& b, const ushort* p, uint ld) {
  const uint lane = ::lily::gpu::current_lane();
  for (uint e = 0; e < 16; e++) b.r[e] = p[(32 * e + lane) / 16 * ld + lane % 16];
}
FN void tile_store(const TileC& c, float* p, uint ld) {
  const uint lane = ::lily::gpu::current_lane();
  for (uint e = 0; e < 16; e++) p[e * ld + lane] = c.r[e];
}
struct TileLane {
  TileC* c;
  const TileA* a;
  const TileB* b;
};
LILY_GPU_COMBINE void combine_mma(void* const* brought) {
  float a[16][16], b[16][32], c[16][32];
  for (uint l = 0; l < 32; l++) {
    const TileLane& lane = *static_cast<const TileLane*>(brought[l]);
    for (uint e = 0; e < 8; e++)
      a[(32 * e + l) / 16][l % 16] = as_type<float>((uint)lane.a->r[e] << 16);
    for (uint e = 0; e < 16; e++) {
      b[l % 16][(32 * e + l) / 16] = as_type<float>((uint)lane.b->r[e] << 16);
      c[e][l] = lane.c->r[e];
    }
  }
  for (uint i = 0; i < 16; i++) {
    for (uint k = 0; k < 16; k++) {
      for (uint j = 0; j < 32; j++)
        c[i][j] += a[i][k] * b[k][j];  // A product of two bf16 is exact.
    }
  }
  for (uint l = 0; l < 32; l++) {
    for (uint e = 0; e < 16; e++) static_cast<const TileLane*>(brought[l])->c->r[e] = c[e][l];
  }
}
FN void tile_mma(TileC& c, const TileA& a, const TileB& b, LILY_GPU_HERE) {
  TileLane lane = {&c, &a, &b};
  ::lily::gpu::meet_lanes(&lane, combine_mma, {"tile_mma", file, line});
}
