// One GPU of the machine and the right to use it from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/gpu/cuda/driver.h"

namespace lily::gpu::cuda {

class Context {
 public:
  // The machine's first device. kDevice where there is none or it is older than compute capability
  // 8.0, the first with bf16 products.
  static Result<std::shared_ptr<Context>> create();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Every thread does this before it calls the driver.
  const Driver& use() const {
    driver_.cuCtxSetCurrent(context_);
    return driver_;
  }
  const std::string& name() const { return name_; }
  int capability() const { return capability_; }  // 90: 9.0
  std::uint64_t free_bytes() const;
  Result<int> attribute(CUdevice_attribute which) const;

 private:
  Context(const Driver& driver, CUdevice device) : driver_(driver), device_(device) {}
  Result<void> open();

  const Driver& driver_;
  CUdevice device_;
  CUcontext context_ = nullptr;
  std::string name_;
  int capability_ = 0;
};

}  // namespace lily::gpu::cuda
