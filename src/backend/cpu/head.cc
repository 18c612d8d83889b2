// head: final norm and logits of a block of the wanted rows.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"

namespace lily::cpu {

void CpuBackend::head(const HeadArgs& args) {
  const std::int64_t n = std::min(kHeadBlockRows, args.control->n_head_rows - args.first);
  const std::int32_t cols = args.lm_head.cols;
  const Linear::Norm norm{
      .weight = args.norm,
      .eps = args.eps,
      .out = args.states == nullptr ? nullptr : args.states + std::int64_t{args.first} * cols};
  const Linear::Product product{args.lm_head, args.logits};
  linear_.multiply({args.h, n, cols, args.control->head_rows + args.first}, &norm, {&product, 1});
}

}  // namespace lily::cpu
