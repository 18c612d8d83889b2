// Which extensions a 64-bit ARM processor has beyond its base. Asked of the system; no other
// architecture compiles it.
#pragma once

#if defined(__aarch64__)

namespace lily {

bool arm_has_dotprod();  // sdot, udot: most cores since 2018
bool arm_has_i8mm();     // usdot, smmla, usmmla: ARMv8.6

}  // namespace lily

#endif
