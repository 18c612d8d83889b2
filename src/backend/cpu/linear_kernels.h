// The kernels that multiply quantised matrices, as the table of an instruction set (kernels.h) holds them.
#pragma once

namespace lily::cpu {

struct LinearKernels {};

}  // namespace lily::cpu
