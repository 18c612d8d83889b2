// experts_up: gate and up projections with SiLU, of the chosen experts and the shared one, in one
// parallel region.
#include "backend/cpu/cpu_backend.h"

namespace lily::cpu {

void CpuBackend::experts_up(const ExpertsUpArgs& args) {
  linear_.experts_up(args);
}

}  // namespace lily::cpu
