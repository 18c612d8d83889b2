// bfloat16 as the upper half of a float: widening is a shift, narrowing rounds to nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace lily {

using Bf16 = std::uint16_t;  // The bits; arithmetic is always done in float.

constexpr float bf16_to_float(Bf16 bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// NaN keeps its sign and becomes quiet; everything else rounds to nearest, ties to even.
constexpr Bf16 float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<Bf16>((bits >> 16) | 0x40u);
  return static_cast<Bf16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace lily
