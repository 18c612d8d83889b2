// The kernels in plain C++ for any processor: the definition that the other instruction sets are
// held to.
#define LILY_ISA portable
#include "backend/cpu/kernels/table.h"

namespace lily::cpu {

const Kernels& kernels_portable() {
  static const Kernels kernels = portable::make_kernels("portable", "portable");
  return kernels;
}

}  // namespace lily::cpu
