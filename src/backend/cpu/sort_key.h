// Logit and id as one integer: ascending keys are descending logits, equal logits by ascending id.
#pragma once

#include <bit>
#include <cstdint>

namespace lily::cpu {

// Positive floats sort as their bits do, negative ones the other way round; adding 0 makes -0 a 0.
// Not for NaN.
constexpr std::uint64_t sort_key(float logit, std::int32_t id) {
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0f);
  const std::uint32_t ascending = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return std::uint64_t{~ascending} << 32 | static_cast<std::uint32_t>(id);
}
constexpr std::int32_t id_of(std::uint64_t key) {
  return static_cast<std::int32_t>(key & 0xffffffffu);
}
constexpr float logit_of(std::uint64_t key) {
  const auto ascending = ~static_cast<std::uint32_t>(key >> 32);
  return std::bit_cast<float>((ascending & 0x80000000u) != 0 ? ascending & 0x7fffffffu
                                                             : ~ascending);
}

}  // namespace lily::cpu
