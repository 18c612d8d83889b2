// Float types of a checkpoint widened to f32. Every one of them widens without rounding.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace lily {

// "BF16", "F16" or "F32".
bool is_float(std::string_view dtype);

// The values behind unaligned bytes of one of these types, little end first.
std::vector<float> to_floats(std::span<const std::byte> bytes, std::string_view dtype);

}  // namespace lily
