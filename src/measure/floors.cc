// Bytes of operands, by the shapes of backend/args.h.
#include "measure/floors.h"

#include <algorithm>
#include <cmath>

namespace lily {
namespace {

constexpr double kFloat = 4;
constexpr int kRouterBits = 8;  // Router and shared gate; everything else has 4.

double matrix_bytes(double rows, double cols, int bits = 4) {
  return rows * cols * (bits / 8.0 + 4.0 / kQuantGroup);
}

// The sizes of the operands of each step.
class Steps {
 public:
  Steps(const ModelSpec& spec, const PassShape& shape)
      : spec_(spec),
        shape_(shape),
        n_(shape.rows),
        hidden_(spec.hidden),
        values_(spec.value_dim()),
        keys_(spec.key_dim()),
        heads_(spec.n_value_heads) {}

  // A product of n rows, which are normed first.
  Floor product(double rows, double cols, double n, int bits = 4) const {
    return {matrix_bytes(rows, cols, bits) + kFloat * (cols + n * (cols + rows)), n * rows * cols};
  }
  Floor embed() const { return {n_ * (matrix_bytes(1, hidden_) + kFloat * hidden_), 0}; }
  Floor gdn_project() const {
    return product(spec_.conv_dim() + values_ + 2 * heads_, hidden_, n_);
  }
  Floor attention_project() const {
    return product(2.0 * spec_.q_dim() + 2 * spec_.kv_dim(), hidden_, n_);
  }
  Floor project_residual() const { return residual(values_); }
  Floor project_attention() const { return residual(spec_.q_dim()); }
  Floor residual(double cols) const {
    return {matrix_bytes(hidden_, cols) + n_ * kFloat * (cols + 2 * hidden_), n_ * hidden_ * cols};
  }
  // The window is three rows, in and out; four taps.
  Floor gdn_prepare() const {
    const double conv = spec_.conv_dim();
    return {kFloat * (n_ * (conv + 2 * keys_ + values_ + 4 * heads_) + 6 * conv + kConvTaps * conv +
                      2 * heads_),
            n_ * conv * kConvTaps};
  }
  // S is scaled, read against k, added to and read against q.
  Floor gdn_scan() const {
    return {scan_bytes() + kFloat * (n_ * values_ + kDeltaDim), 4 * n_ * values_ * kDeltaDim};
  }
  double scan_bytes() const {  // Without what the norm of its output needs.
    return kFloat * (2 * values_ * kDeltaDim + n_ * (2 * keys_ + 2 * values_ + 2 * heads_));
  }
  Floor gdn_scan_many() const { return {scan_bytes(), gdn_scan().multiply_adds}; }
  Floor gdn_norm() const { return {kFloat * (n_ * 3 * values_ + kDeltaDim), 0}; }
  double cache_bytes(double positions) const {
    return positions * 2 * spec_.kv_dim() * shape_.kv_element_bytes;
  }
  Floor attention_prepare() const {
    return {n_ * kFloat * (2 * spec_.q_dim() + 2 * spec_.kv_dim()) + cache_bytes(n_), 0};
  }
  Floor attention() const {
    const double q = spec_.q_dim(), positions = n_ * shape_.position + n_ * (n_ + 1) / 2;
    return {cache_bytes(shape_.position + n_) + n_ * kFloat * 3 * q, 2 * q * positions};
  }
  // The row's own key and value come with the merge, and so do its gate and its output.
  Floor attention_few() const {
    return {cache_bytes(shape_.position) + n_ * kFloat * spec_.q_dim(), attention().multiply_adds};
  }
  Floor attention_merge() const {
    return {cache_bytes(n_) + n_ * kFloat * (2 * spec_.q_dim() + 2 * spec_.kv_dim()), 0};
  }
  Floor router() const { return product(spec_.n_experts + 1, hidden_, n_, kRouterBits); }
  Floor route_choose() const {
    return {kFloat * (hidden_ + n_ * (2 * hidden_ + spec_.n_experts + 1 + choices())), 0};
  }
  Floor route() const {
    const double outputs = n_ * kFloat * (spec_.n_experts + 1);  // Nobody else needs the logits.
    return {router().bytes - outputs + n_ * kFloat * (hidden_ + choices()), router().multiply_adds};
  }
  double choices() const { return 2.0 * spec_.n_chosen + 1; }
  double act_bytes() const {
    return n_ * kFloat * (spec_.n_chosen * spec_.expert_width + spec_.shared_width);
  }
  double expert_matrices(double each) const {  // of so many matrices an expert
    return each *
           (distinct_experts(spec_, shape_.rows) * matrix_bytes(spec_.expert_width, hidden_) +
            matrix_bytes(spec_.shared_width, hidden_));
  }
  double expert_products(double each) const {
    return each * n_ * hidden_ * (spec_.n_chosen * spec_.expert_width + spec_.shared_width);
  }
  Floor experts_up() const {
    return {expert_matrices(2) + n_ * kFloat * (hidden_ + spec_.n_chosen) + act_bytes(),
            expert_products(2)};
  }
  Floor experts_down() const {
    return {expert_matrices(1) + act_bytes() + n_ * kFloat * (2 * hidden_ + choices()),
            expert_products(1)};
  }
  // On tiles each expert writes bf16, which are added up afterwards.
  double expert_outputs() const { return n_ * (spec_.n_chosen + 1) * 2 * hidden_; }
  Floor experts_tile_down() const {
    return {expert_matrices(1) + act_bytes() + expert_outputs(), expert_products(1)};
  }
  Floor experts_combine() const {
    return {expert_outputs() + n_ * kFloat * (2 * hidden_ + spec_.n_chosen + 1), 0};
  }
  Floor experts_sort() const { return {2 * n_ * kFloat * spec_.n_chosen, 0}; }
  Floor head() const { return product(spec_.vocab_rows, hidden_, shape_.head_rows); }
  Floor choose() const { return {shape_.head_rows * kFloat * spec_.vocab_rows, 0}; }

 private:
  const ModelSpec& spec_;
  const PassShape& shape_;
  double n_, hidden_, values_, keys_, heads_;
};

struct NamedStep {
  std::string_view step;
  Floor (Steps::*floor)() const;
};
constexpr NamedStep kSteps[] = {{"embed", &Steps::embed},
                                {"gdn_project", &Steps::gdn_project},
                                {"gdn_prepare", &Steps::gdn_prepare},
                                {"gdn_scan", &Steps::gdn_scan},
                                {"project_residual", &Steps::project_residual},
                                {kAttentionResidual, &Steps::project_attention},
                                {"attention_project", &Steps::attention_project},
                                {"attention_prepare", &Steps::attention_prepare},
                                {"attention", &Steps::attention},
                                {"route", &Steps::route},
                                {"experts_up", &Steps::experts_up},
                                {"experts_down", &Steps::experts_down},
                                {"head", &Steps::head},
                                {"choose", &Steps::choose}};

// Kernels by what their names begin with, and the step they belong to; the first that fits. The
// kernels of a product are one launch of a step: what the others do is not in it.
struct NamedKernel {
  std::string_view step, begins;
  Floor (Steps::*floor)() const;
};
constexpr NamedKernel kKernels[] = {
    {"embed", "embed", &Steps::embed},
    {"gdn_project", "linear_", &Steps::gdn_project},
    {"attention_project", "linear_", &Steps::attention_project},
    {"project_residual", "linear_", &Steps::project_residual},
    {kAttentionResidual, "linear_", &Steps::project_attention},
    {"gdn_prepare", "gdn_prepare", &Steps::gdn_prepare},
    {"gdn_scan", "gdn_scan_few", &Steps::gdn_scan},
    {"gdn_scan", "gdn_scan_", &Steps::gdn_scan_many},
    {"gdn_scan", "gdn_norm", &Steps::gdn_norm},
    {"attention_prepare", "attention_prepare", &Steps::attention_prepare},
    {"attention", "attention_few_", &Steps::attention_few},
    {"attention", "attention_merge", &Steps::attention_merge},
    {"attention", "attention_many", &Steps::attention},
    {"route", "linear_", &Steps::router},
    {"route", "route_choose", &Steps::route_choose},
    {"experts_up", "experts_sort", &Steps::experts_sort},
    {"experts_up", "experts_few_up", &Steps::experts_up},
    {"experts_up", "experts_tile_up", &Steps::experts_up},
    {"experts_down", "experts_sort", &Steps::experts_sort},
    {"experts_down", "experts_few_down", &Steps::experts_down},
    {"experts_down", "experts_tile_down", &Steps::experts_tile_down},
    {"experts_down", "experts_combine", &Steps::experts_combine},
    {"head", "linear_", &Steps::head},
    {"choose", "head_chunks_", &Steps::head}};

}  // namespace

double distinct_experts(const ModelSpec& spec, int rows) {
  const double missed = 1.0 - static_cast<double>(spec.n_chosen) / spec.n_experts;
  return spec.n_experts * (1.0 - std::pow(missed, rows));
}

std::optional<Floor> step_floor(const ModelSpec& spec, const PassShape& shape,
                                std::string_view step) {
  const auto found = std::find_if(std::begin(kSteps), std::end(kSteps),
                                  [&](const NamedStep& s) { return s.step == step; });
  if (found == std::end(kSteps)) return std::nullopt;
  return (Steps(spec, shape).*found->floor)();
}

std::optional<Floor> kernel_floor(const ModelSpec& spec, const PassShape& shape,
                                  std::string_view step, std::string_view kernel) {
  const auto found =
      std::find_if(std::begin(kKernels), std::end(kKernels), [&](const NamedKernel& k) {
        return k.step == step && kernel.substr(0, k.begins.size()) == k.begins;
      });
  if (found == std::end(kKernels)) return std::nullopt;
  return (Steps(spec, shape).*found->floor)();
}

}  // namespace lily
