// The table of kernels: the loops over numbers, compiled once per instruction set (isa_*.cc) and
// chosen once at start. Every entry computes the same bits in every table. Shapes are in elements;
// pointers need no alignment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/linear_kernels.h"
#include "backend/cpu/vector_kernels.h"
#include "base/result.h"

namespace lily::cpu {

// Functions over n floats, y[i] = f(x[i]); y may be x.
struct MathKernels {
  void (*exp)(const float* x, float* y, std::int64_t n);
  void (*sigmoid)(const float* x, float* y, std::int64_t n);
  void (*silu)(const float* x, float* y, std::int64_t n);
  void (*softplus)(const float* x, float* y, std::int64_t n);
  void (*rsqrt)(const float* x, float* y, std::int64_t n);
  float (*sum)(const float* x, std::int64_t n);
  float (*largest)(const float* x, std::int64_t n);
  void (*to_bf16)(const float* x, std::uint16_t* y, std::int64_t n);
  void (*from_bf16)(const std::uint16_t* x, float* y, std::int64_t n);
  // y [n] = x * rsqrt(mean(x^2) + eps) * weight; weight null: not multiplied. The sum of squares
  // runs in 16 lanes.
  void (*rms_norm)(const float* x, const float* weight, float* y, std::int64_t n, float eps);
};

struct Kernels {
  std::string_view name;   // As options name it: "avx2"
  std::string_view title;  // "AVX2"
  MathKernels math;
  LinearKernels linear;
  GdnKernels gdn;
  AttentionKernels attention;
  VocabularyKernels vocabulary;
  // The exclusive or of all 32-bit words of n_bytes, a multiple of 16.
  std::uint32_t (*fold)(const std::byte* bytes, std::int64_t n_bytes);
};

const Kernels& kernels_portable();
#if defined(__x86_64__)
const Kernels& kernels_avx512();
const Kernels& kernels_avx2();
#elif defined(__aarch64__)
const Kernels& kernels_neon();
const Kernels& kernels_neon_i8mm();
#endif

// The tables that this processor can run, best first; portable is the last.
std::vector<const Kernels*> supported_kernels();
// The named one, or the best where the name is empty.
Result<const Kernels*> choose_kernels(const std::string& name);

}  // namespace lily::cpu
