// route: the matrices through Linear, then each row's largest experts and their weights.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"

namespace lily::cpu {
namespace {

struct Choice {
  float logit;
  std::int32_t expert;
};

// The n largest logits in descending order, equal ones by ascending id: an insertion sort that
// keeps n.
void largest_experts(const float* logits, std::int32_t n_experts, std::int32_t n, Choice* chosen) {
  std::int32_t kept = 0;
  for (std::int32_t e = 0; e < n_experts; ++e) {
    if (kept == n && !(logits[e] > chosen[n - 1].logit)) continue;
    std::int32_t at = kept < n ? kept++ : n - 1;
    for (; at > 0 && logits[e] > chosen[at - 1].logit; --at) chosen[at] = chosen[at - 1];
    chosen[at] = {logits[e], e};
  }
}

void sort_by_id(Choice* chosen, std::int32_t n) {
  for (std::int32_t i = 1; i < n; ++i) {
    const Choice c = chosen[i];
    std::int32_t at = i;
    for (; at > 0 && c.expert < chosen[at - 1].expert; --at) chosen[at] = chosen[at - 1];
    chosen[at] = c;
  }
}

// weight = exp(logit - largest) / sum over the chosen, added by ascending id: the denominator of
// the softmax over all experts cancels.
void write_row(const Kernels& kernels, const RouteArgs& args, const float* logits,
               std::int64_t row) {
  Choice chosen[kMaxChosenExperts];
  const std::int32_t n = args.n_chosen;
  largest_experts(logits, args.router.rows, n, chosen);
  const float top = chosen[0].logit;
  sort_by_id(chosen, n);
  float* const weights = args.expert_weights + row * n;
  for (std::int32_t i = 0; i < n; ++i) weights[i] = chosen[i].logit - top;
  kernels.math.exp(weights, weights, n);
  float sum = 0.0f;
  for (std::int32_t i = 0; i < n; ++i) sum += weights[i];
  for (std::int32_t i = 0; i < n; ++i) weights[i] /= sum;
  for (std::int32_t i = 0; i < n; ++i) args.experts[row * n + i] = chosen[i].expert;
}

}  // namespace

void CpuBackend::route(const RouteArgs& args) {
  const float* const logits = linear_.route(args);
  constexpr std::int64_t kTaskRows = 64;
  const std::int64_t n_rows = args.control->n_rows, n_experts = args.router.rows;
  pool_.parallel_for((n_rows + kTaskRows - 1) / kTaskRows, [&](std::int64_t task) {
    const std::int64_t end = std::min(n_rows, (task + 1) * kTaskRows);
    for (std::int64_t row = task * kTaskRows; row < end; ++row) {
      write_row(kernels_, args, logits + row * n_experts, row);
    }
  });
  kernels_.math.sigmoid(args.shared_weight, args.shared_weight, n_rows);
}

}  // namespace lily::cpu
