// Rows of a pass grouped by the expert they chose, so that a weight row is dequantised once for all
// of them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"

namespace lily::reference {

struct ExpertUse {
  std::int64_t row;   // Row of the pass.
  std::int64_t slot;  // row * n_chosen + place in the row's list
};

// lists[e]: the uses of expert e, by ascending row.
inline std::vector<std::vector<ExpertUse>> uses_by_expert(const std::int32_t* experts, int n_rows,
                                                          int n_chosen, int n_experts) {
  std::vector<std::vector<ExpertUse>> lists(static_cast<std::size_t>(n_experts));
  for (std::int64_t slot = 0; slot < static_cast<std::int64_t>(n_rows) * n_chosen; ++slot) {
    LILY_CHECK(experts[slot] >= 0 && experts[slot] < n_experts);
    lists[static_cast<std::size_t>(experts[slot])].push_back({slot / n_chosen, slot});
  }
  return lists;
}

}  // namespace lily::reference
