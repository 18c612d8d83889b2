// What the machine can do at most, measured: how fast it reads memory and how fast it multiplies
// and adds small integers. Benchmarks put their own rates beside these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace lily {

struct LimitsRequest {
  int threads = 0;  // 0: one per core that this process may use.
  std::string isa;  // Whose integer products; empty: the best that the processor has.
  std::size_t bytes =
      std::size_t{1}
      << 30;  // Memory to read through; far more than any cache, or the cache is measured.
};

struct MachineLimits {
  int threads = 0;
  std::size_t bytes = 0;
  std::string kernel;                       // "avx512", "avx2", "neon", ...
  double read_one = 0, read_all = 0;        // Bytes a second: one thread, all of them.
  double integer_one = 0, integer_all = 0;  // Multiply-adds of 8-bit integers a second.
};

// Integer products from registers, as dense as an instruction set allows: `steps` rounds of them on
// this thread. Returns how many multiply-adds that were; their result goes to `sink`.
using IntegerKernel = std::int64_t (*)(std::int64_t steps, std::uint64_t& sink);
// Of the named instruction set; empty: of the best that the processor has.
Result<IntegerKernel> integer_kernel(const std::string& isa);

// The best of several runs; takes a second or two. kNoMemory when the memory to read cannot be had,
// kUnsupported where the processor lacks the instruction set.
Result<MachineLimits> measure_limits(const LimitsRequest& request);

}  // namespace lily
