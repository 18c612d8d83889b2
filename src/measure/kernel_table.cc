// Pieces of a pass, gathered by what runs for which step.
#include "measure/kernel_table.h"

#include <algorithm>

namespace lily {
namespace {

using Works = std::vector<PieceTime::Work>;

// In the order of a pass: tells the projections behind the two kinds of mixers apart.
class StepNames {
 public:
  Works named(Works works) {
    for (auto& work : works) {
      if (work.step == "gdn_scan") attends_ = false;
      if (work.step == "attention") attends_ = true;
      if (work.step == "project_residual" && attends_) work.step = kAttentionResidual;
    }
    return works;
  }

 private:
  bool attends_ = false;
};

std::string steps_of(const Works& works) {
  std::string steps, last;
  for (const auto& work : works) {
    if (work.step == last) continue;
    steps += (steps.empty() ? "" : " + ") + work.step;
    last = work.step;
  }
  return steps;
}

Floor floor_of(const ModelSpec& spec, const PassShape& shape, const Works& works) {
  Floor sum;
  for (const auto& work : works) {
    const auto floor = work.kernel.empty() ? step_floor(spec, shape, work.step)
                                           : kernel_floor(spec, shape, work.step, work.kernel);
    if (!floor) continue;
    sum.bytes += floor->bytes;
    sum.multiply_adds += floor->multiply_adds;
  }
  return sum;
}

KernelRow& row_of(KernelTable& table, const std::string& kernel, const std::string& steps) {
  const auto found = std::find_if(table.rows.begin(), table.rows.end(), [&](const KernelRow& r) {
    return r.kernel == kernel && r.steps == steps;
  });
  if (found != table.rows.end()) return *found;
  return table.rows.emplace_back(KernelRow{.kernel = kernel, .steps = steps});
}

}  // namespace

KernelTable make_kernel_table(const ModelSpec& spec, const PassShape& shape, const PassTimes& times,
                              const DeviceRates& rates) {
  KernelTable table{.shape = shape, .rows = {}, .pass_seconds = times.seconds};
  StepNames names;
  for (const PieceTime& piece : times.pieces) {
    const Works works = names.named(piece.work);
    KernelRow& row = row_of(table, piece.kernel, steps_of(works));
    const Floor floor = floor_of(spec, shape, works);
    const double reading = floor.bytes / rates.bytes_per_second,
                 computing = floor.multiply_adds / rates.multiply_adds_per_second;
    ++row.calls;
    row.seconds += piece.seconds;
    row.floor.bytes += floor.bytes;
    row.floor.multiply_adds += floor.multiply_adds;
    row.floor_seconds += std::max(reading, computing);
    row.by_arithmetic = computing > reading;
    table.sum_seconds += piece.seconds;
    table.floor_seconds += std::max(reading, computing);
  }
  return table;
}

}  // namespace lily
