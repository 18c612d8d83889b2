// Options of a backend, as the devices understand them.
#include "backend/gpu/open.h"

#include "backend/gpu/emulator_device.h"
#include "backend/gpu/gpu_backend.h"

namespace lily::gpu {

Result<std::unique_ptr<Backend>> open_emulator(const BackendOptions& options) {
  if (!options.isa.empty()) {
    return Error{ErrorCode::kUnsupported,
                 "instruction set '" + options.isa + "': the emulator has none to choose"};
  }
  if (options.activations == Activations::kF32) {
    return Error{ErrorCode::kUnsupported, "exact activations: GPU kernels round operands to bf16"};
  }
  LILY_TRY(auto device, EmulatorDevice::create({.workers = options.threads}));
  return std::make_unique<GpuBackend>(std::move(device));
}

}  // namespace lily::gpu
