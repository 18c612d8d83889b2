// experts_down: down projections, weighted and added to the residual stream.
#include <algorithm>

#include "backend/reference/arithmetic.h"
#include "backend/reference/expert_lists.h"
#include "backend/reference/reference_backend.h"

namespace lily::reference {

// Experts are visited by ascending id, which is the order of each row's list. One rounding, at the
// end.
void ReferenceBackend::experts_down(const ExpertsDownArgs& args) {
  const int n_rows = args.control->n_rows, width = args.down.cols,
            shared_width = args.shared_down.cols;
  const std::int64_t hidden = args.shared_down.rows;
  const auto lists = uses_by_expert(args.experts, n_rows, args.n_chosen, args.n_experts);
  std::vector<double> sums(static_cast<std::size_t>(n_rows));
  std::vector<double> weights(static_cast<std::size_t>(std::max(width, shared_width)));
  for (std::int64_t d = 0; d < hidden; ++d) {
    for (std::int64_t t = 0; t < n_rows; ++t)
      sums[static_cast<std::size_t>(t)] = args.h[t * hidden + d];
    for (int e = 0; e < args.n_experts; ++e) {
      const auto& uses = lists[static_cast<std::size_t>(e)];
      if (!uses.empty()) dequantise_row(args.down, e * hidden + d, weights.data());
      for (const auto& use : uses) {
        const double y = dot(weights.data(), args.act + use.slot * width, width);
        sums[static_cast<std::size_t>(use.row)] +=
            static_cast<double>(args.expert_weights[use.slot]) * y;
      }
    }
    dequantise_row(args.shared_down, d, weights.data());
    for (std::int64_t t = 0; t < n_rows; ++t) {
      const double y = dot(weights.data(), args.shared_act + t * shared_width, shared_width);
      const double sum =
          sums[static_cast<std::size_t>(t)] + static_cast<double>(args.shared_weight[t]) * y;
      args.h[t * hidden + d] = static_cast<float>(sum);
    }
  }
}

}  // namespace lily::reference
