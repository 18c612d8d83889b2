// Counts are int where they enter arithmetic; memory and containers are indexed by std::size_t.
#pragma once

#include <cstddef>

namespace lily {

constexpr std::size_t size(int n) { return static_cast<std::size_t>(n); }

}  // namespace lily
