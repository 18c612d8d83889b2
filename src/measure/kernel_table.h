// What a pass spends its time on: a row a kernel, or a step where steps run at once, beside the
// least that it has to move and to compute.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/ops.h"
#include "measure/floors.h"

namespace lily {

struct DeviceRates {
  double bytes_per_second = 0, multiply_adds_per_second = 0;
};

struct KernelRow {
  std::string kernel;  // As the device names it.
  std::string
      steps;  // Whose work it does, "route + experts_up"; empty: it prepares what another needs.
  int calls = 0;               // A pass.
  double seconds = 0;          // All calls together.
  Floor floor = {};            // Of all calls; zeros where it is not known.
  double floor_seconds = 0;    // At the device's rates, the nearer of the two.
  bool by_arithmetic = false;  // Which one that is.
  // 0 where the floor is not known.
  double share() const { return seconds > 0 ? floor_seconds / seconds : 0; }
};

struct KernelTable {
  PassShape shape;
  std::vector<KernelRow> rows;  // In the order in which a pass first comes to them.
  double sum_seconds = 0;       // Of the rows.
  double pass_seconds = 0;      // Of the whole pass, in which kernels may overlap.
  double floor_seconds = 0;     // Of the rows whose floor is known.
};

KernelTable make_kernel_table(const ModelSpec& spec, const PassShape& shape, const PassTimes& times,
                              const DeviceRates& rates);

}  // namespace lily
