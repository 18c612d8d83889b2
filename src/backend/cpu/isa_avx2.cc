// The kernels for AVX2 with FMA (Haswell, Zen and later); CMakeLists.txt compiles this file for it.
#if defined(__x86_64__)

#define LILY_ISA avx2
#define LILY_ISA_AVX2
#include "backend/cpu/kernels/table.h"

namespace lily::cpu {

const Kernels& kernels_avx2() {
  static const Kernels kernels = avx2::make_kernels("avx2", "AVX2");
  return kernels;
}

}  // namespace lily::cpu

#endif
