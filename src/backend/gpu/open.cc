// Options of a backend, as the devices understand them.
#include "backend/gpu/open.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "backend/gpu/cuda/open.h"
#include "backend/gpu/emulator_device.h"
#include "backend/gpu/gpu_backend.h"
#include "backend/gpu/metal/open.h"

namespace lily::gpu {

namespace {

// Those whose other side exists.
constexpr bool Mechanisms::*kSwitchable[] = {
    &Mechanisms::dequantise_in_tile,  &Mechanisms::route_on_device,
    &Mechanisms::adaptive_tiles,      &Mechanisms::large_tiles,
    &Mechanisms::matrix_units,        &Mechanisms::register_state,
    &Mechanisms::concurrent_dispatch, &Mechanisms::fused_experts_up,
    &Mechanisms::fused_experts_down,  &Mechanisms::fused_query_key,
    &Mechanisms::fused_scan_norm,     &Mechanisms::packed_attention,
    &Mechanisms::block_attention,     &Mechanisms::coalesced_kv,
    &Mechanisms::fused_head_choose,
};

// kUnsupported names the first mechanism that differs from its default and cannot.
Result<void> check_switchable(const Mechanisms& mechanisms) {
  for (const auto& [name, field] : kMechanismFields) {
    if (mechanisms.*field == Mechanisms{}.*field) continue;
    if (std::find(std::begin(kSwitchable), std::end(kSwitchable), field) == std::end(kSwitchable)) {
      return Error{ErrorCode::kUnsupported,
                   "mechanism '" + std::string(name) + "': this build has one way of it only"};
    }
  }
  return {};
}

Result<void> check_options(const BackendOptions& options) {
  if (!options.isa.empty()) {
    return Error{ErrorCode::kUnsupported,
                 "instruction set '" + options.isa + "': a GPU's kernels have none to choose"};
  }
  if (options.activations == Activations::kF32) {
    return Error{ErrorCode::kUnsupported, "exact activations: GPU kernels round operands to bf16"};
  }
  return check_switchable(options.mechanisms);
}

}  // namespace

Result<std::unique_ptr<Backend>> open_emulator(const BackendOptions& options) {
  LILY_RETURN_IF_ERROR(check_options(options));
  LILY_TRY(auto device, EmulatorDevice::create({.workers = options.threads}));
  return std::make_unique<GpuBackend>(std::move(device), options.mechanisms);
}

Result<std::unique_ptr<Backend>> open_metal(const BackendOptions& options) {
  LILY_RETURN_IF_ERROR(check_options(options));
  LILY_TRY(auto device, metal::open_device());
  return std::make_unique<GpuBackend>(std::move(device), options.mechanisms);
}

Result<std::unique_ptr<Backend>> open_cuda(const BackendOptions& options) {
  LILY_RETURN_IF_ERROR(check_options(options));
  LILY_TRY(auto device, cuda::open_device());
  return std::make_unique<GpuBackend>(std::move(device), options.mechanisms);
}

}  // namespace lily::gpu
