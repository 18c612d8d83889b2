// The kernels for AVX-512 with VNNI (Ice Lake, Zen 4 and later); CMakeLists.txt compiles this file
// for it.
#if defined(__x86_64__)

#define LILY_ISA avx512
#define LILY_ISA_AVX512
#include "backend/cpu/kernels/table.h"

namespace lily::cpu {

const Kernels& kernels_avx512() {
  static const Kernels kernels = avx512::make_kernels("avx512", "AVX-512");
  return kernels;
}

}  // namespace lily::cpu

#endif
