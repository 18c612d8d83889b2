// Compiled for ARM with products of 8-bit matrices, see CMakeLists.txt.
#if defined(__aarch64__)

#include "measure/limits_neon.h"

namespace lily {

std::int64_t integer_neon_i8mm(std::int64_t steps, std::uint64_t& sink) {
  return integer_chains(steps, sink, 32, [](int32x4_t sum, int8x16_t codes, int8x16_t x) {
    return vmmlaq_s32(sum, codes, x);
  });
}

}  // namespace lily

#endif
