// The kernel language: the one include of every kernel file. It picks the front end: Metal, CUDA,
// C++ for OpenCL (the lint's stand-in for Apple's compiler), or the CPU emulator. What all four
// share is in common.h. The rules of the language: docs/KERNELS.md.
//
// A kernel, in a file kernels/NAME.cc, its arguments in kernels/NAME_params.h (for the host too):
//
//   KERNEL(name, NameParams, Shared, max_threads) { body }
//
// The body sees
//
//   a    CON NameParams&  the arguments
//   sm   TG Shared&       the threadgroup's memory, undefined at first, at most 32 KiB; NoShared
//   id   Ids              group, groups (uint3); threads (of a group); tid, lane (0 .. 31), simd
//
// The struct Shared and the functions of a file carry its kernel's name, since all kernels may
// share one program. Threads of a group are a multiple of 32, at most max_threads, in one
// dimension. Each KERNEL has a line in kernels/list.h.
//
// What a body may call, the same in every front end (T: float or uint):
//
//   group_barrier()             all threads of the group; orders threadgroup memory
//   group_barrier_device()      the same, and device memory among the threads of the group
//   lanes_barrier()             the 32 lanes; orders threadgroup memory among them
//
//   T lanes_xor(T v, uint m)    v of lane ^ m
//   T lanes_read(T v, uint l)   v of lane l % 32
//   T lanes_sum(T v)            xor butterfly 16, 8, 4, 2, 1; float lanes_max(float v) likewise
//   uint this_lane()            id.lane, where there is no id
//   uint lanes_prefix(uint v, uint lane)               sum of v over the lanes before this one
//   float group_sum(float v, TG float* parts, id)      lanes first, then simdgroups in index order;
//   float group_max(float v, TG float* parts, id)      parts [threads / 32]. A barrier before parts
//                                                      is written again is the caller's.
//   uint counter_add(DEV or TG counter* p, uint n)     relaxed; the value before
//
//   m_fma m_sqrt m_rsqrt m_exp m_log m_sin m_cos m_sigmoid m_silu m_softplus m_abs m_floor m_max
//   m_min of floats; u_min u_max i_min i_max
//   as_type<T>(v)               bits
//   bf16_to_f(ushort) f_to_bf16(float) bf16_lo(uint) bf16_hi(uint) bf16_pair(lo, hi)
//   uint2 uint4 float2 float4   vehicles of loads and stores: components x y z w, make_uint4(...)
//   UNROLL or ROLLED before a loop, FN before a function, KERNEL_CONST before a number or table of the file
//
// All these meetings (barriers, lanes_*, tile_mma and the other tile functions) are reached by all
// lanes together: never under a condition that differs between lanes, never after a return.
//
// Tile layer: products of 16 x 16 by 16 x 32, bf16 in, fp32 sums, dealt to the 32 lanes of a
// simdgroup in an order of the device's own.
//
//   tile_zero(THR TileC& c)
//   tile_load_a(THR TileA& a, TG const ushort* p, uint ld)    a[i][k] = p[i * ld + k]
//   tile_load_bt(THR TileB& b, TG const ushort* p, uint ld)   b[k][j] = p[j * ld + k]
//   tile_mma(THR TileC& c, a, b)                              c += a b
//   tile_store(THR TileC& c, TG float* p, uint ld)            p[i * ld + j] = c[i][j]
//
// PlainTileA, PlainTileB and PlainTileC are the same in plain arithmetic (plain_tiles.h); a kernel that
// exists with both is a template of MatrixUnits or PlainLanes, whose A, B and C they are.
//
// p is 4-byte aligned and ld even. What tile_load_* was given stays unchanged until a barrier
// behind the last tile_mma with it: a device may read it only then. Sums are in an order of the
// device's own, so compare with a tolerance.
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
#include "backend/gpu/dialect/plain_tiles.h"
