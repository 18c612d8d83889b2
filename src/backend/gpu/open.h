// The GPU's backends by device.
#pragma once

#include <memory>

#include "backend/ops.h"

namespace lily::gpu {

// kUnsupported where options ask for what a GPU does not have: an instruction set, exact
// activations.
Result<std::unique_ptr<Backend>> open_emulator(const BackendOptions& options);
Result<std::unique_ptr<Backend>> open_metal(const BackendOptions& options);
Result<std::unique_ptr<Backend>> open_cuda(const BackendOptions& options);

}  // namespace lily::gpu
