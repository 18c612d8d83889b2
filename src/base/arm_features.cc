// The extensions: from the auxiliary vector on Linux, from sysctl on macOS; elsewhere none.
#include "base/arm_features.h"

#if defined(__aarch64__)

#if defined(__linux__)
#include <sys/auxv.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>

#include <cstddef>
#endif

namespace lily {
namespace {

#if defined(__linux__)
// Bits of the kernel's <asm/hwcap.h>, which older headers lack.
constexpr unsigned long kDotprodBit = 1ul << 20, kI8mmBit = 1ul << 13;
#elif defined(__APPLE__)
bool has(const char* name) {
  int value = 0;
  std::size_t size = sizeof value;
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
}
#endif

}  // namespace

bool arm_has_dotprod() {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & kDotprodBit) != 0;
#elif defined(__APPLE__)
  return has("hw.optional.arm.FEAT_DotProd");
#else
  return false;
#endif
}

bool arm_has_i8mm() {
#if defined(__linux__)
  return (getauxval(AT_HWCAP2) & kI8mmBit) != 0;
#elif defined(__APPLE__)
  return has("hw.optional.arm.FEAT_I8MM");
#else
  return false;
#endif
}

}  // namespace lily

#endif
