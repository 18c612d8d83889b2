// experts_up: gate and up projections with SiLU, of the chosen experts and the shared one.
#include "backend/reference/arithmetic.h"
#include "backend/reference/expert_lists.h"
#include "backend/reference/reference_backend.h"

namespace lily::reference {
namespace {

// One expert: `width` rows of gate and up from `first_row`, the inputs x [T, D], act [slots,
// width].
struct Expert {
  const QuantMatrix& gate;
  const QuantMatrix& up;
  std::int64_t first_row;
  std::int64_t width;
};

void run_expert(const Expert& expert, const float* x, const std::vector<ExpertUse>& uses,
                float* act) {
  const int n = expert.gate.cols;
  std::vector<double> gate(static_cast<std::size_t>(n)), up(static_cast<std::size_t>(n));
  for (std::int64_t f = 0; f < expert.width; ++f) {
    dequantise_row(expert.gate, expert.first_row + f, gate.data());
    dequantise_row(expert.up, expert.first_row + f, up.data());
    for (const auto& use : uses) {
      const float* row = x + use.row * n;
      act[use.slot * expert.width + f] =
          static_cast<float>(silu(dot(gate.data(), row, n)) * dot(up.data(), row, n));
    }
  }
}

}  // namespace

void ReferenceBackend::experts_up(const ExpertsUpArgs& args) {
  const int n_rows = args.control->n_rows;
  const auto lists = uses_by_expert(args.experts, n_rows, args.n_chosen, args.n_experts);
  const std::int64_t width = args.gate.rows / args.n_experts;
  for (int e = 0; e < args.n_experts; ++e) {
    const auto& uses = lists[static_cast<std::size_t>(e)];
    if (!uses.empty()) run_expert({args.gate, args.up, e * width, width}, args.x, uses, args.act);
  }
  std::vector<ExpertUse> every_row;
  for (std::int64_t t = 0; t < n_rows; ++t) every_row.push_back({t, t});
  run_expert({args.shared_gate, args.shared_up, 0, args.shared_gate.rows}, args.x, every_row,
             args.shared_act);
}

}  // namespace lily::reference
