// Loading libcuda, once.
#include "backend/gpu/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace lily::gpu::cuda {
namespace {

// Of the toolkit that compiled the kernels; drivers run what earlier releases of a major compiled.
constexpr int kOldestDriver = CUDA_VERSION / 1000 * 1000;

std::string version_text(int version) {
  return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

#define LILY_CUDA_TEXT(name) #name
#define LILY_CUDA_SYMBOL(name) LILY_CUDA_TEXT(name)

// The name of a function that the library lacks, or null.
const char* find_functions(void* library, Driver& driver) {
#define LILY_CUDA_FIND(name)                                                                     \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(library, LILY_CUDA_SYMBOL(name))); \
  if (driver.name == nullptr) return LILY_CUDA_SYMBOL(name);
  LILY_CUDA_FUNCTIONS(LILY_CUDA_FIND)
#undef LILY_CUDA_FIND
  return nullptr;
}

Result<Driver> load_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{ErrorCode::kDevice,
                 fmt::format("CUDA: no NVIDIA driver on this machine ({})", dlerror())};
  }
  Driver driver;
  if (const char* const missing = find_functions(library, driver)) {
    return Error{ErrorCode::kDevice,
                 fmt::format("CUDA: the driver has no {}; {} or later is needed", missing,
                             version_text(kOldestDriver))};
  }
  LILY_RETURN_IF_ERROR(
      driver.check(driver.cuDriverGetVersion(&driver.version), "asking its version"));
  if (driver.version < kOldestDriver) {
    return Error{ErrorCode::kDevice,
                 fmt::format("CUDA: the driver is for {}; {} or later is needed",
                             version_text(driver.version), version_text(kOldestDriver))};
  }
  LILY_RETURN_IF_ERROR(driver.check(driver.cuInit(0), "starting the driver"));
  return driver;
}

}  // namespace

Error Driver::error(CUresult result, std::string doing) const {
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  const auto code = result == CUDA_ERROR_OUT_OF_MEMORY ? ErrorCode::kNoMemory : ErrorCode::kDevice;
  return {code, fmt::format("CUDA: {}: {} ({})", doing, text == nullptr ? "unknown error" : text,
                            name == nullptr ? "?" : name)};
}

Result<const Driver*> driver() {
  static const Result<Driver> loaded = load_driver();
  if (!loaded) return loaded.error();
  return &*loaded;
}

}  // namespace lily::gpu::cuda
