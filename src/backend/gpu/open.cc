// Options of a backend, as the devices understand them.
#include "backend/gpu/open.h"

#include <string>
#include <utility>

#include "backend/gpu/cuda/open.h"
#include "backend/gpu/emulator_device.h"
#include "backend/gpu/gpu_backend.h"
#include "backend/gpu/metal/open.h"

namespace lily::gpu {
namespace {

Result<void> check_options(const BackendOptions& options) {
  if (!options.isa.empty()) {
    return Error{ErrorCode::kUnsupported,
                 "instruction set '" + options.isa + "': a GPU's kernels have none to choose"};
  }
  if (options.activations == Activations::kF32) {
    return Error{ErrorCode::kUnsupported, "exact activations: GPU kernels round operands to bf16"};
  }
  return {};
}

// The options are looked at before a device is opened.
template <typename OpenDevice>
Result<std::unique_ptr<Backend>> open_on(const BackendOptions& options, OpenDevice open_device) {
  LILY_RETURN_IF_ERROR(check_options(options));
  LILY_TRY(auto device, open_device());
  return std::make_unique<GpuBackend>(std::move(device), options.mechanisms.value_or(Mechanisms{}));
}

}  // namespace

Result<std::unique_ptr<Backend>> open_emulator(const BackendOptions& options) {
  return open_on(options, [&] { return EmulatorDevice::create({.workers = options.threads}); });
}

Result<std::unique_ptr<Backend>> open_metal(const BackendOptions& options) {
  return open_on(options, metal::open_device);
}

Result<std::unique_ptr<Backend>> open_cuda(const BackendOptions& options) {
  return open_on(options, [&] { return cuda::open_device(options.on_upload); });
}

}  // namespace lily::gpu
