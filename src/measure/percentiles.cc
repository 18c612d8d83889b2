// Sorted, and counted off.
#include "measure/percentiles.h"

#include <algorithm>
#include <numeric>

namespace lily {

Percentiles percentiles_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  const auto at = [&](std::size_t percent) { return values[(n * percent + 99) / 100 - 1]; };
  return {.count = static_cast<int>(n),
          .mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(n),
          .p50 = at(50),
          .p90 = at(90),
          .p99 = at(99),
          .most = values.back()};
}

}  // namespace lily
