// The CUDA driver, found at run time: a program built for CUDA starts on machines without it.
#pragma once

#include <cuda.h>

#include "base/result.h"

// What is called of it. <cuda.h> maps some names to versions of themselves; so do the members.
#define LILY_CUDA_FUNCTIONS(X)   \
  X(cuInit)                      \
  X(cuDriverGetVersion)          \
  X(cuGetErrorName)              \
  X(cuGetErrorString)            \
  X(cuDeviceGetCount)            \
  X(cuDeviceGet)                 \
  X(cuDeviceGetName)             \
  X(cuDeviceGetAttribute)        \
  X(cuDevicePrimaryCtxRetain)    \
  X(cuDevicePrimaryCtxRelease)   \
  X(cuCtxSetCurrent)             \
  X(cuMemGetInfo)                \
  X(cuMemAlloc)                  \
  X(cuMemFree)                   \
  X(cuMemAllocHost)              \
  X(cuMemFreeHost)               \
  X(cuMemsetD8Async)             \
  X(cuMemcpyHtoDAsync)           \
  X(cuMemcpyDtoHAsync)           \
  X(cuStreamCreate)              \
  X(cuStreamDestroy)             \
  X(cuStreamSynchronize)         \
  X(cuEventCreate)               \
  X(cuEventDestroy)              \
  X(cuEventRecord)               \
  X(cuEventSynchronize)          \
  X(cuEventElapsedTime)          \
  X(cuModuleLoadData)            \
  X(cuModuleUnload)              \
  X(cuModuleGetFunction)         \
  X(cuFuncGetAttribute)          \
  X(cuFuncSetAttribute)          \
  X(cuGraphCreate)               \
  X(cuGraphDestroy)              \
  X(cuGraphAddKernelNode)        \
  X(cuGraphAddDependencies)      \
  X(cuGraphInstantiateWithFlags) \
  X(cuGraphExecDestroy)          \
  X(cuGraphLaunch)

namespace lily::gpu::cuda {

struct Driver {
#define LILY_CUDA_MEMBER(name) decltype(&::name) name = nullptr;
  LILY_CUDA_FUNCTIONS(LILY_CUDA_MEMBER)
#undef LILY_CUDA_MEMBER
  int version = 0;  // 13000: CUDA 13.0.

  // kNoMemory or kDevice, with the driver's name for what happened.
  Error error(CUresult result, std::string doing) const;
  Result<void> check(CUresult result, const char* doing) const {
    if (result == CUDA_SUCCESS) return {};
    return error(result, doing);
  }
};

// Loaded and initialised by the first call. kDevice: there is no driver, it is older than what
// this program was built for, or it finds no device.
Result<const Driver*> driver();

}  // namespace lily::gpu::cuda
