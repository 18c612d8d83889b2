// The integer rates of 64-bit ARM.
#pragma once

#if defined(__aarch64__)

#include <cstdint>

namespace lily {

// IntegerKernel of limits.h. The processor has the extension that is named.
std::int64_t integer_neon(std::int64_t steps, std::uint64_t& sink);  // sdot
std::int64_t integer_neon_i8mm(std::int64_t steps, std::uint64_t& sink);

}  // namespace lily

#endif
