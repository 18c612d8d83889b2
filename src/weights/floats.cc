// Widening; see floats.h.
#include "weights/floats.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/bf16.h"

namespace lily {
namespace {

static_assert(std::endian::native == std::endian::little, "checkpoints and images are little-endian");

float half_to_float(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const auto mantissa = static_cast<float>(bits & 1023);
  float value = 0.0f;
  if (exponent == 31) {
    value = mantissa == 0.0f ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, -24);
  } else {
    value = std::ldexp(mantissa + 1024.0f, exponent - 25);
  }
  return bits & 0x8000 ? -value : value;
}

}  // namespace

bool is_float(std::string_view dtype) { return dtype == "BF16" || dtype == "F16" || dtype == "F32"; }

std::vector<float> to_floats(std::span<const std::byte> bytes, std::string_view dtype) {
  const bool wide = dtype == "F32";
  std::vector<float> out(bytes.size() / (wide ? 4 : 2));
  if (wide) {
    std::memcpy(out.data(), bytes.data(), out.size() * 4);
    return out;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    out[i] = dtype == "BF16" ? bf16_to_float(bits) : half_to_float(bits);
  }
  return out;
}

}  // namespace lily
