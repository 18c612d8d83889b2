// The way in: Metal's device, or why there is none. absent.cc answers in builds without Metal.
#pragma once

#include <memory>

#include "backend/gpu/device.h"

namespace lily::gpu::metal {

// kUnsupported where the build, the system or the GPU is not one that Lily runs on.
Result<std::unique_ptr<Device>> open_device();

}  // namespace lily::gpu::metal
