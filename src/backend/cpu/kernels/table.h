// All kernels of one instruction set, gathered into its table. Included by isa_*.cc alone.
#pragma once

#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/kernels/fold.h"
#include "backend/cpu/kernels/gdn.h"
#include "backend/cpu/kernels/linear.h"
#include "backend/cpu/kernels/math.h"
#include "backend/cpu/kernels/vocabulary.h"

namespace lily::cpu::LILY_ISA {

inline Kernels make_kernels(std::string_view name, std::string_view title) {
  return {.name = name,
          .title = title,
          .math = math_kernels(),
          .linear = linear_kernels(),
          .gdn = gdn_kernels(),
          .attention = attention_kernels(),
          .vocabulary = vocabulary_kernels(),
          .fold = fold};
}

}  // namespace lily::cpu::LILY_ISA
