// Compiled for ARM with dot products, see CMakeLists.txt.
#if defined(__aarch64__)

#include "measure/limits_neon.h"

namespace lily {

std::int64_t integer_neon(std::int64_t steps, std::uint64_t& sink) {
  return integer_chains(steps, sink, 16, [](int32x4_t sum, int8x16_t codes, int8x16_t x) {
    return vdotq_s32(sum, codes, x);
  });
}

}  // namespace lily

#endif
