// head: final norm and logits of one block of wanted rows.
#include <algorithm>

#include "backend/reference/arithmetic.h"
#include "backend/reference/reference_backend.h"

namespace lily::reference {

void ReferenceBackend::head(const HeadArgs& args) {
  const int n = head_block_rows(*args.control, args.first), hidden = args.lm_head.cols;
  const auto width = static_cast<std::size_t>(hidden);
  std::vector<float> states(static_cast<std::size_t>(n) * width);
  for (int i = 0; i < n; ++i) {
    const float* h =
        args.h + static_cast<std::size_t>(args.control->head_rows[args.first + i]) * width;
    norm_rows(h, args.norm, 1, hidden, args.eps,
              states.data() + static_cast<std::size_t>(i) * width);
  }
  multiply(args.lm_head, states.data(), n, args.logits);
  if (args.states != nullptr) {
    std::copy(states.begin(), states.end(),
              args.states + static_cast<std::size_t>(args.first) * width);
  }
}

}  // namespace lily::reference
