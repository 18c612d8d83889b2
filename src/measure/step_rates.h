// What a backend moves and computes in a second, step by step, in the shapes of a model, on memory
// that is plausible and means nothing: which step is far from what the device can do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/ops.h"
#include "base/result.h"
#include "spec/model_spec.h"

namespace lily {

struct StepRate {
  std::string step;
  std::string kernels;  // What ran, where the backend names kernels.
  int rows = 0;         // Of activations; 0: there are none.
  std::uint64_t bytes =
      0;  // Weights or cache that the pass reads; of a copy what it reads and writes.
  double multiply_adds = 0;  // Of the products.
  double seconds = 0;  // The median by the device's clock; without one the fastest of the repeats.
  double bytes_per_second() const { return static_cast<double>(bytes) / seconds; }
  double multiply_adds_per_second() const { return multiply_adds / seconds; }
};

struct StepRatesRequest {
  int repeats = 10;
  std::uint64_t weight_bytes = 256 << 20;  // Of a pass of one row, as layers follow each other.
  // Nothing of the following where it is 0.
  std::size_t read_bytes = 0;  // Memory read from end to end.
  int rows = 0;                // The products once more, of so many rows.
  int positions = 0;           // A row's attention over so many.
  bool folds = false;          // What products of one row read, without their arithmetic.
};

// The first is a copy: the rate to hold the others to. Prepares the backend.
Result<std::vector<StepRate>> measure_steps(Backend& backend, const ModelSpec& spec,
                                            const StepRatesRequest& request);

// What it costs to hand work to the backend, from launches that do nothing.
struct LaunchCosts {
  double pass_seconds = 0;         // A pass of one launch, from submit to the end of the wait.
  double dependent_seconds = 0;    // A launch more that waits for the one before.
  double independent_seconds = 0;  // A launch more that does not.
};
// Prepares the backend.
Result<LaunchCosts> measure_launches(Backend& backend, const ModelSpec& spec, int repeats);

}  // namespace lily
