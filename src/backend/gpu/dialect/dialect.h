// The kernel language: the one include of every kernel file. It picks the front end: Metal, CUDA,
// C++ for OpenCL (the lint's stand-in for Apple's compiler), or the CPU emulator. What all four
// share is in common.h. The rules of the language: docs/KERNELS.md.
//
// A kernel, in a file kernels/NAME.cc, its arguments in kernels/NAME_params.h (for the host too):
//
//   KERNEL(name, NameParams, Shared, max_threads) { body }
//
// The body sees
//   a    CON NameParams&  the arguments
//   sm   TG Shared&       the threadgroup's memory, undefined at first, at most 32 KiB; NoShared
//   where there is none id   Ids              group, groups (uint3); threads, thread (0 ..
//   threads-1), lane (0 .. 31), simd (thread / 32)
// The struct Shared and the functions of a file carry its kernel's name, since all kernels may
// share one program. Threads of a group are a multiple of 32, at most max_threads, in one
// dimension. Each KERNEL has a line in kernels/list.h.
//
// What a body may call, the same in every front end (T: float or uint, also int where it says so):
//   group_barrier()             all threads of the group; orders threadgroup memory
//   group_barrier_device()      the same, and device memory among the threads of the group
//   lanes_barrier()             the 32 lanes; orders threadgroup memory among them
//   T lanes_xor(T v, uint m)    v of lane ^ m                   T lanes_read(T v, uint l)   v of
//   lane l T lanes_sum(T v)            xor butterfly 16, 8, 4, 2, 1    float lanes_max(float v)
//   uint lanes_prefix(uint v, uint lane)   sum of v over the lanes before this one (integers: any
//   order is the same) float group_sum(v, TG float* parts, id), group_max: over all threads, lanes
//   first and then simdgroups in index order;
//                               parts [threads / 32]; a barrier before parts is used again is the
//                               caller's
//   uint counter_add(DEV or TG counter* p, uint n)   the value before
//   m_fma m_sqrt m_rsqrt m_exp m_log m_sin m_cos m_sigmoid m_silu m_softplus m_abs m_floor m_max
//   m_min    float u_min u_max i_min i_max as_type<T>(v) bits; bf16_to_f(ushort), f_to_bf16(float),
//   bf16_lo(uint), bf16_hi(uint), bf16_pair(lo, hi) uint2 uint4 float2 float4: loads and stores
//   only, components x y z w; make_uint4(...) and so on TileA TileB TileC: see "tile layer" below
//   UNROLL before a loop; FN before a function; KERNEL_CONST before a table or number at file scope
//
// All these meetings (barriers, lanes_*, tile_*) are reached by all lanes together, never under a
// condition that differs between lanes, never after a return.
//
// Tile layer: products of 16x16 by 16x32, bf16 in, fp32 sums, held by the 32 lanes of a simdgroup
// in an order of the device's own.
//   tile_zero(THR TileC&)
//   tile_load_a(THR TileA&, TG const ushort* p, uint ld)    a[i][k] = p[i * ld + k], i < 16, k < 16
//   tile_load_bt(THR TileB&, TG const ushort* p, uint ld)   b[k][j] = p[j * ld + k], j < 32, k < 16
//   tile_mma(THR TileC& c, a, b)                            c += a b
//   tile_store(THR TileC const&, TG float* p, uint ld)      p[i * ld + j] = c[i][j]
// p is 4-byte aligned and ld even (8 and a multiple of 4 are faster); what load_a and load_bt read
// stays unchanged until the tile's last tile_mma is behind a barrier, since a device may read it
// only then. Sums are in an order of the device's own: compare with a tolerance.
#pragma once

#include "backend/gpu/dialect/words.h"

#if defined(__METAL_VERSION__)
#include "backend/gpu/dialect/metal.h"
#elif defined(__CUDACC__)
#include "backend/gpu/dialect/cuda.h"
#elif defined(__OPENCL_CPP_VERSION__)
#include "backend/gpu/dialect/lint.h"
#else
#include "backend/gpu/dialect/emulator.h"
#endif

#include "backend/gpu/dialect/common.h"
