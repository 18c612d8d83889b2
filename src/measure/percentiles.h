// What half, nine tenths and 99 of 100 measurements stay within.
#pragma once

#include <vector>

namespace lily {

struct Percentiles {
  int count = 0;  // 0: nothing was measured, and the rest means nothing.
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, most = 0;
};

// Nearest rank: the least measurement that at least so many per cent of them do not exceed.
Percentiles percentiles_of(std::vector<double> values);

}  // namespace lily
