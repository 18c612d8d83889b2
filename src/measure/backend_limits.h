// Everything that is measured of a backend beside whole answers: what reading, copying, products,
// attention and launches cost, and where a pass spends its time.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "backend/ops.h"
#include "base/result.h"
#include "measure/kernel_table.h"
#include "measure/limits.h"
#include "measure/step_rates.h"
#include "model/weights.h"

namespace lily {

struct BackendLimitsRequest {
  std::size_t read_bytes = std::size_t{1} << 30;  // From end to end; by products a quarter of it.
  int rows = 512;    // Of products of many rows and of the chunk; 0: neither.
  int depth = 4096;  // Positions before the decoded row; of a single attention too.
  int repeats = 5;
  std::function<void(std::string_view what)> on_part = {};  // What is measured next.
};

struct BackendLimits {
  LaunchCosts launches;
  std::vector<StepRate> steps;
  DeviceRates rates;  // What passes are held to.
  KernelTable decode;
  std::vector<KernelTable> prefill;  // One, or none.
};

// The highest rates seen in `steps`, of reading with nothing computed and of products; on a CPU
// `machine`'s where they are higher.
DeviceRates device_rates(const Backend& backend, const MachineLimits& machine,
                         const std::vector<StepRate>& steps);

Result<BackendLimits> measure_backend(Backend& backend, const LoadedWeights& weights,
                                      const MachineLimits& machine,
                                      const BackendLimitsRequest& request);

}  // namespace lily
