// Ceilings and names of a sweep's points.
#include "measure/sweep_point.h"

namespace lily {

double ceiling_rate(const SweepPoint& point, const EngineWork& work,
                    const MachineCeiling& machine) {
  if (point.kind == SweepKind::kPrefill) {
    const double a_token = work.multiply_adds + work.head_multiply_adds / point.length;
    return a_token > 0 ? machine.multiply_adds_per_second / a_token : 0;
  }
  const double positions = point.length + point.tokens / 2.0;
  const double a_token =
      work.weight_bytes + work.state_bytes + work.kv_bytes_per_position * positions;
  return a_token > 0 ? machine.read_bytes_per_second / a_token : 0;
}

std::string point_name(const SweepPoint& point) {
  return (point.kind == SweepKind::kPrefill ? "prefill of " : "decode at ") +
         std::to_string(point.length);
}

}  // namespace lily
