// Least, middle and most of what was measured several times.
#pragma once

#include <vector>

namespace lily {

struct Spread {
  double low = 0, median = 0, high = 0;
};

// Of at least one value. The median of an even number of values is the upper one of the two in the middle.
Spread spread_of(std::vector<double> values);

}  // namespace lily
