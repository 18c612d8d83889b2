// The kernels for 64-bit ARM with products of 8-bit matrices (ARMv8.6: Neoverse V1 and N2, Apple M2
// and later); CMakeLists.txt compiles this file for it.
#if defined(__aarch64__)

#define LILY_ISA neon_i8mm
#define LILY_ISA_NEON
#define LILY_ISA_I8MM
#include "backend/cpu/kernels/table.h"

namespace lily::cpu {

const Kernels& kernels_neon_i8mm() {
  static const Kernels kernels = neon_i8mm::make_kernels("neon-i8mm", "NEON with i8mm");
  return kernels;
}

}  // namespace lily::cpu

#endif
