// The words that argument structs and kernels are written with: address spaces and integer names.
// Host code may include this file to fill argument structs; everything else of the dialect is for
// kernels only.
//
//   DEV  device memory: every pointer in an argument struct     TG   memory of one threadgroup
//   CON  constant memory: the arguments, tables                 THR  a lane's own variables
//
// Every pointer and reference in a kernel names one of them. Metal's own words cannot be used: to
// define `device` away destroys nvcc's __device__, `constant` and `thread` break standard headers.
//
// An argument struct, NameParams in kernels/name_params.h, lists pointers first (8 bytes each, on
// the host as well; to uint, ushort, float or structs of them, never to vectors), then 32-bit
// scalars; its size is a multiple of 8. LILY_PARAMS(Struct, bytes) states the size for every
// compiler. The host fills pointers with addresses of the device.
#pragma once

#if defined(__METAL_VERSION__)
#include <metal_stdlib>
#define DEV device
#define CON constant
#define TG threadgroup
#define THR thread
#elif defined(__OPENCL_CPP_VERSION__)
#define DEV __global
#define CON __constant
#define TG __local
#define THR __private
#else
#define DEV
#define CON const
#define TG
#define THR
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
typedef unsigned long ulong;  // 64 bits, as in Metal: LP64 systems only.
#endif

// Added to with counter_add, relaxed: the one atomic. Never read while others may add.
#if defined(__METAL_VERSION__)
typedef metal::atomic_uint counter;
#else
typedef uint counter;
#endif

#define LILY_PARAMS(Struct, bytes)                             \
  static_assert(sizeof(Struct) == (bytes) && (bytes) % 8 == 0, \
                "argument structs: pointers first, then an even number of scalars")
