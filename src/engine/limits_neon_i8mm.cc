// Compiled for ARM with products of 8-bit matrices, see CMakeLists.txt.
#if defined(__aarch64__)

#include <arm_neon.h>

#include "engine/limits_neon.h"

namespace lily {

// Chains of what a code costs there at best: an smmla makes 32 products. As many as hide its
// latency.
std::int64_t integer_neon_i8mm(std::int64_t steps, std::uint64_t& sink) {
  constexpr int kChains = 16;
  int8x16_t codes = vdupq_n_s8(5);
  const int8x16_t x = vdupq_n_s8(-2);
  int32x4_t sums[kChains];
  for (auto& sum : sums) sum = vdupq_n_s32(0);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (auto& sum : sums) {
      asm volatile("" : "+w"(codes));  // The compiler may not know that the products repeat.
      sum = vmmlaq_s32(sum, codes, x);
    }
  }
  for (const auto& sum : sums) sink += static_cast<std::uint64_t>(vaddvq_s32(sum));
  return steps * kChains * 32;
}

}  // namespace lily

#endif
