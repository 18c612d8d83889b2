// CUDA's place in builds without it.
#include "backend/gpu/cuda/open.h"

namespace lily::gpu::cuda {

Result<std::unique_ptr<Device>> open_device() {
  return Error{ErrorCode::kUnsupported,
               "this build has no CUDA: nvcc was not found when it was configured"};
}

}  // namespace lily::gpu::cuda
