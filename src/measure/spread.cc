// Sorted, and the middle taken.
#include "measure/spread.h"

#include <algorithm>

#include "base/check.h"

namespace lily {

Spread spread_of(std::vector<double> values) {
  LILY_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  return {values.front(), values[values.size() / 2], values.back()};
}

}  // namespace lily
