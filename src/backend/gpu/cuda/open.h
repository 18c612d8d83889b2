// The door to CUDA, for builds with it and without.
#pragma once

#include <memory>

#include "backend/gpu/device.h"

namespace lily::gpu::cuda {

// kUnsupported: this build has no CUDA. kDevice: no driver, an old one, or no device that will do.
Result<std::unique_ptr<Device>> open_device();

}  // namespace lily::gpu::cuda
