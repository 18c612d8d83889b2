// The integer rates of 64-bit ARM.
#pragma once

#if defined(__aarch64__)

#include <arm_neon.h>

#include <cstdint>

namespace lily {

// IntegerKernel of limits.h. The processor has the extension that is named.
std::int64_t integer_neon(std::int64_t steps, std::uint64_t& sink);  // sdot
std::int64_t integer_neon_i8mm(std::int64_t steps, std::uint64_t& sink);

// Chains of what a code costs at best, as many as hide the latency of `dot`, which adds `products`
// of them to four sums.
template <typename Dot>
inline std::int64_t integer_chains(std::int64_t steps, std::uint64_t& sink, int products, Dot dot) {
  constexpr int kChains = 16;
  int8x16_t codes = vdupq_n_s8(5);
  const int8x16_t x = vdupq_n_s8(-2);
  int32x4_t sums[kChains];
  for (auto& sum : sums) sum = vdupq_n_s32(0);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (auto& sum : sums) {
      asm volatile("" : "+w"(codes));  // The compiler may not know that the products repeat.
      sum = dot(sum, codes, x);
    }
  }
  for (const auto& sum : sums) sink += static_cast<std::uint64_t>(vaddvq_s32(sum));
  return steps * kChains * products;
}

}  // namespace lily

#endif
