// Choosing a GPU and asking what it is.
#include "backend/gpu/cuda/context.h"

#include <fmt/format.h>

namespace lily::gpu::cuda {
namespace {

constexpr int kOldestCapability = 80;

}  // namespace

Result<std::shared_ptr<Context>> Context::create() {
  LILY_TRY(const Driver* const found, driver());
  int n_devices = 0;
  LILY_RETURN_IF_ERROR(found->check(found->cuDeviceGetCount(&n_devices), "counting devices"));
  if (n_devices == 0) return Error{ErrorCode::kDevice, "CUDA: the driver finds no device"};
  CUdevice device = 0;
  LILY_RETURN_IF_ERROR(found->check(found->cuDeviceGet(&device, 0), "taking the first device"));
  const std::shared_ptr<Context> context(new Context(*found, device));
  LILY_RETURN_IF_ERROR(context->open());
  return context;
}

Result<void> Context::open() {
  char name[256] = "";
  LILY_RETURN_IF_ERROR(driver_.check(driver_.cuDeviceGetName(name, sizeof name, device_),
                                     "asking the device's name"));
  LILY_TRY(const int major, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  LILY_TRY(const int minor, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  name_ = name;
  capability_ = 10 * major + minor;
  if (capability_ < kOldestCapability) {
    return Error{ErrorCode::kDevice,
                 fmt::format("CUDA: {} has compute capability {}.{}, expected 8.0 or later", name_,
                             major, minor)};
  }
  return driver_.check(driver_.cuDevicePrimaryCtxRetain(&context_, device_), "opening the device");
}

Context::~Context() {
  if (context_ != nullptr) driver_.cuDevicePrimaryCtxRelease(device_);
}

Result<int> Context::attribute(CUdevice_attribute which) const {
  int value = 0;
  LILY_RETURN_IF_ERROR(driver_.check(driver_.cuDeviceGetAttribute(&value, which, device_),
                                     "asking what the device is"));
  return value;
}

std::uint64_t Context::free_bytes() const {
  std::size_t free = 0, total = 0;
  return use().cuMemGetInfo(&free, &total) == CUDA_SUCCESS ? free : 0;
}

}  // namespace lily::gpu::cuda
