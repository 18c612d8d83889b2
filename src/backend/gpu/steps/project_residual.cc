// project_residual: the product and its sum in one launch.
#include "backend/gpu/steps/linear.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {

void record_project_residual(Recorder& to, const ProjectResidualArgs& args) {
  record_linear(to, linear_way(to), {.control = args.control, .x = args.x},
                {{args.weight, args.h}});
}

}  // namespace lily::gpu
