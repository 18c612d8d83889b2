// The middle of several measurements.
#pragma once

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace lily::gpu {

// Of at least one; of an even number the upper one of the two in the middle.
inline double median(std::vector<double> values) {
  LILY_CHECK(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace lily::gpu
