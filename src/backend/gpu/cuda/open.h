// The door to CUDA, for builds with it and without.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "backend/gpu/device.h"

namespace lily::gpu::cuda {

using UploadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// kUnsupported: this build has no CUDA. kDevice: no driver, an old one, or no device that will do.
// on_upload: as in BackendOptions.
Result<std::unique_ptr<Device>> open_device(UploadProgress on_upload = {});

}  // namespace lily::gpu::cuda
