// What the machine can do at most, measured: how fast it reads memory and how fast it multiplies
// and adds small integers. Benchmarks put their own rates beside these.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace lily {

struct LimitsRequest {
  int threads = 0;  // 0: one per core that this process may use.
  std::size_t bytes =
      std::size_t{1}
      << 30;  // Memory to read through; far more than any cache, or the cache is measured.
};

struct MachineLimits {
  int threads = 0;
  std::size_t bytes = 0;
  std::string kernel;                       // "avx2" or "portable"
  double read_one = 0, read_all = 0;        // Bytes a second: one thread, all of them.
  double integer_one = 0, integer_all = 0;  // Multiply-adds of 8-bit integers a second.
};

// The best of several runs; takes a second or two. kNoMemory when the memory to read cannot be had.
Result<MachineLimits> measure_limits(const LimitsRequest& request);

}  // namespace lily
