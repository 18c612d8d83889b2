// route: norm, router logits, the K largest experts with weights that sum to one, the shared
// expert's gate.
#include <algorithm>
#include <cmath>
#include <span>

#include "backend/reference/arithmetic.h"
#include "backend/reference/reference_backend.h"

namespace lily::reference {
namespace {

// Ids of the n largest logits in ascending order; of equal logits the lower ids.
std::vector<std::int32_t> largest(std::span<const float> logits, std::size_t n) {
  std::vector<std::int32_t> chosen;
  std::vector<bool> taken(logits.size());
  while (chosen.size() < n) {
    std::size_t best = logits.size();
    for (std::size_t e = 0; e < logits.size(); ++e) {
      if (!taken[e] && (best == logits.size() || logits[e] > logits[best])) best = e;
    }
    taken[best] = true;
    chosen.push_back(static_cast<std::int32_t>(best));
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

// Softmax over all experts divided by its sum over the chosen: the softmax's own denominator
// cancels.
void write_weights(std::span<const float> logits, std::span<const std::int32_t> chosen,
                   float* weights) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const auto e : chosen) sum += std::exp(logits[static_cast<std::size_t>(e)] - top);
  for (const auto e : chosen) {
    *weights++ = static_cast<float>(std::exp(logits[static_cast<std::size_t>(e)] - top) / sum);
  }
}

}  // namespace

void ReferenceBackend::route(const RouteArgs& args) {
  const int n_rows = args.control->n_rows;
  const auto n_experts = static_cast<std::size_t>(args.router.rows);
  norm_rows(args.h, args.norm, n_rows, args.router.cols, args.eps, args.x);
  std::vector<float> logits(static_cast<std::size_t>(n_rows) * n_experts);
  multiply(args.router, args.x, n_rows, logits.data());
  multiply(args.shared_gate, args.x, n_rows, args.shared_weight);
  for (int t = 0; t < n_rows; ++t) {
    const std::span row(logits.data() + static_cast<std::size_t>(t) * n_experts, n_experts);
    const auto chosen = largest(row, static_cast<std::size_t>(args.n_chosen));
    const std::int64_t to = static_cast<std::int64_t>(t) * args.n_chosen;
    std::copy(chosen.begin(), chosen.end(), args.experts + to);
    write_weights(row, chosen, args.expert_weights + to);
    args.shared_weight[t] = static_cast<float>(sigmoid(args.shared_weight[t]));
  }
}

}  // namespace lily::reference
