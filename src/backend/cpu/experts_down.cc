// experts_down: down projections, weighted and added to the residual stream, in one parallel
// region.
#include "backend/cpu/cpu_backend.h"

namespace lily::cpu {

void CpuBackend::experts_down(const ExpertsDownArgs& args) {
  linear_.experts_down(args);
}

}  // namespace lily::cpu
