// Planted kernels and those of the tile layer by name, as find_kernel gives the real ones.
#pragma once

#include "backend/gpu/kernel.h"
#include "tests/gpu/planted/planted.h"
#include "tests/gpu/planted/tile_kernels.h"

#define PLANTED_DECLARE(name) extern const lily::gpu::KernelEntry plain_##name, observed_##name;
PLANTED_KERNELS(PLANTED_DECLARE)
TILE_KERNELS(PLANTED_DECLARE)

namespace lily::gpu {

#if defined(LILY_GPU_TSAN)
#define PLANTED_OBSERVED(kernel) nullptr
#else
#define PLANTED_OBSERVED(kernel) observed_##kernel.run
#endif
#define PLANTED(kernel)                                                         \
  (::lily::gpu::Kernel{plain_##kernel.name, plain_##kernel.args_bytes,          \
                       plain_##kernel.shared_bytes, plain_##kernel.max_threads, \
                       plain_##kernel.run, PLANTED_OBSERVED(kernel)})

}  // namespace lily::gpu
