// Activations packed for the products, and a row of a table taken out of its blocks.
#pragma once

#include <cmath>
#include <limits>

#include "backend/cpu/kernels/linear_dots.h"
#include "backend/cpu/linear_kernels.h"
#include "backend/cpu/simd.h"
#include "base/bf16.h"
#include "spec/layout.h"

namespace lily::cpu::LILY_ISA {

// Below it 127 / m could overflow.
inline constexpr float kSmallestMagnitude = 0x1p-100f;

LILY_INLINE void pack_group(const float* x, Int8Group& out) {
  const F16 v[4] = {load(x), load(x + 16), load(x + 32), load(x + 48)};
  F16 largest = zero(), bad = zero();
  for (const F16& part : v) {
    largest = max(abs(part), largest);
    bad = fma(part, zero(), bad);  // 0, or NaN where a value is not finite
  }
  const float m = reduce_max(largest);
  const bool finite = reduce_add(bad) == 0.0f;
  const F16 inverse = broadcast(finite && m >= kSmallestMagnitude ? 127.0f / m : 0.0f);
  for (int i = 0; i < 4; ++i) store_i8(out.codes + 16 * i, finite ? mul(v[i], inverse) : zero());
  std::int32_t sums[2];
  code_sums(out.codes, sums);
  out.centre_all = -8 * (sums[0] + sums[1]);
  for (int i = 0; i < 2; ++i) out.centre[i] = static_cast<std::int16_t>(-8 * sums[i]);
  out.scale = !finite                   ? std::numeric_limits<float>::quiet_NaN()
              : m >= kSmallestMagnitude ? m / 127.0f
                                        : 0.0f;
  out.scaled_sum = out.scale * static_cast<float>(sums[0] + sums[1]);
}

inline void pack_int8(const float* x, std::int64_t groups, Int8Group* packed) {
  for (std::int64_t g = 0; g < groups; ++g) pack_group(x + kQuantGroup * g, packed[g]);
}

inline void pack_f32(const float* x, std::int64_t groups, F32Group* packed) {
  for (std::int64_t g = 0; g < groups; ++g, x += kQuantGroup) {
    F16 sum = zero();
    for (int i = 0; i < kQuantGroup; i += 16) {
      const F16 part = load(x + i);
      store(packed[g].x + i, part);
      sum = add(sum, part);
    }
    packed[g].sum = reduce_add(sum);
  }
}

inline void dequantise(const std::byte* blocks, std::int64_t groups, int bits, int lane, float* y) {
  const std::size_t record = record_bytes(bits);
  for (std::int64_t g = 0; g < groups; ++g, blocks += record, y += kQuantGroup) {
    const auto* sides = reinterpret_cast<const Bf16*>(blocks);
    const float scale = bf16_to_float(sides[lane]), bias = bf16_to_float(sides[kBlockRows + lane]);
    const std::byte* codes = blocks + 4 * kBlockRows + 4 * lane;
    for (int c = 0; c < kQuantGroup; ++c) {
      const int byte = 64 * (c / 8) + c % 4, shift = c % 8 < 4 ? 0 : 4;
      int code = (std::to_integer<int>(codes[byte]) >> shift) & 15;
      if (bits == 8)
        code +=
            ((std::to_integer<int>(codes[kPlaneBytes + static_cast<std::size_t>(byte)]) >> shift) &
             15)
            << 4;
      y[c] = std::fma(scale, static_cast<float>(code), bias);
    }
  }
}

}  // namespace lily::cpu::LILY_ISA
