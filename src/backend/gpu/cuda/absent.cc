// CUDA's place in builds without it.
#include "backend/gpu/cuda/open.h"

namespace lily::gpu::cuda {

Result<std::unique_ptr<Device>> open_device(UploadProgress) {
  return Error{ErrorCode::kUnsupported,
               "this build has no CUDA: when it was configured, there was no nvcc or no NVIDIA card (LILY_CUDA_TARGETS)"};
}

}  // namespace lily::gpu::cuda
