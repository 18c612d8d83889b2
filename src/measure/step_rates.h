// What the main steps of a decode pass move in a second, in the shapes of a model, with weights of
// zeros: which kernel is far from what the device can read.
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
  std::uint64_t bytes;  // Weights that the pass reads; of a copy what it reads and writes.
  double seconds;       // The fastest of the repeats, from submit to the end of the wait.
  double bytes_per_second() const { return static_cast<double>(bytes) / seconds; }
};

// The first is a copy: the rate to hold the others to. Prepares the backend.
Result<std::vector<StepRate>> measure_steps(Backend& backend, const ModelSpec& spec, int repeats);

}  // namespace lily
