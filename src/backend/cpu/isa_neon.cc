// The kernels for 64-bit ARM with dot products (ARMv8.2: Cortex-A76, Neoverse N1, Apple M1 and
// later); CMakeLists.txt compiles this file for it.
#if defined(__aarch64__)

#define LILY_ISA neon
#define LILY_ISA_NEON
#include "backend/cpu/kernels/table.h"

namespace lily::cpu {

const Kernels& kernels_neon() {
  static const Kernels kernels = neon::make_kernels("neon", "NEON");
  return kernels;
}

}  // namespace lily::cpu

#endif
