// project_residual: the output projection of a mixer, added to the residual stream.
#include "backend/cpu/cpu_backend.h"

namespace lily::cpu {

void CpuBackend::project_residual(const ProjectResidualArgs& args) {
  linear_.multiply_add({args.x, args.control->n_rows, args.weight.cols}, {args.weight, args.h});
}

}  // namespace lily::cpu
