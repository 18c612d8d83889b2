// Passes of one step each, or of the same step for several layers where one layer is too little to
// measure.
#include "measure/step_rates.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>

namespace lily {
namespace {

constexpr double kEnoughSeconds = 0.5;  // A slow device repeats less.
constexpr int kLayers = 8;              // Whose weights follow each other in a pass.

class StepRates {
 public:
  StepRates(Backend& backend, const ModelSpec& spec, int repeats)
      : backend_(backend), spec_(spec), repeats_(repeats) {}

  Result<std::vector<StepRate>> measure() {
    LILY_RETURN_IF_ERROR(backend_.prepare(spec_, 1));
    LILY_RETURN_IF_ERROR(allocate());
    using Part = Result<void> (StepRates::*)();
    for (const Part part :
         {&StepRates::copy, &StepRates::head, &StepRates::delta_projections,
          &StepRates::attention_projections, &StepRates::output_projections, &StepRates::experts}) {
      LILY_RETURN_IF_ERROR((this->*part)());
      weights_.clear();
    }
    return std::move(rates_);
  }

 private:
  Result<float*> floats(std::size_t n) {
    LILY_TRY(auto buffer, backend_.allocate(n * sizeof(float), "activations"));
    buffers_.push_back(std::move(buffer));
    return buffers_.back().as<float>();
  }
  // One activation is as long as any step's.
  Result<void> allocate() {
    PassControl control{.n_rows = 1,
                        .n_segments = 1,
                        .n_head_rows = 1,
                        .reserved = 0,
                        .segments = {},
                        .tokens = {},
                        .head_rows = {}};
    control.segments[0] = {.first_row = 0,
                           .n_rows = 1,
                           .position = 0,
                           .sequence = 0,
                           .state_in = -1,
                           .state_out = 0,
                           .snapshots = -1,
                           .reserved = 0};
    LILY_TRY(auto buffer, backend_.allocate(sizeof control, "control"));
    backend_.write(buffer, 0, std::as_bytes(std::span(&control, 1)));
    control_ = buffer.as<PassControl>();
    buffers_.push_back(std::move(buffer));
    const auto widest =
        static_cast<std::size_t>(std::max({spec_.hidden, spec_.conv_dim(), 2 * spec_.q_dim(),
                                           spec_.vocab_rows, spec_.n_chosen * spec_.expert_width}));
    for (float** to : {&in_, &norm_}) {
      LILY_TRY(*to, floats(widest));
    }
    for (float*& out : outs_) {
      LILY_TRY(out, floats(kHeadBlockRows * widest));
    }
    return {};
  }
  Result<QuantMatrix> matrix(std::int64_t rows, int cols) {
    const auto extent = quant_extent(WeightLayout::kRowMajor, {rows, cols, 4});
    LILY_TRY(auto buffer, backend_.allocate(extent.bytes, "weights to measure with"));
    weights_.push_back(std::move(buffer));
    bytes_ += extent.bytes;
    auto* const at = weights_.back().as<unsigned char>();
    return QuantMatrix{at,
                       reinterpret_cast<std::uint16_t*>(at + extent.scales),
                       reinterpret_cast<std::uint16_t*>(at + extent.biases),
                       static_cast<std::int32_t>(rows),
                       cols,
                       4,
                       static_cast<std::uint32_t>(WeightLayout::kRowMajor)};
  }
  Result<void> pass(const PassKey& key, const std::function<void()>& name_steps) {
    if (backend_.begin(key)) name_steps();
    return backend_.wait(backend_.submit());
  }
  // bytes: of all that the steps read.
  Result<void> time(const char* step, std::uint64_t bytes,
                    const std::function<void()>& name_steps) {
    // Passes of different steps differ in their key by a number that no step looks at.
    const PassKey key{.rows_bound = 1, .head_blocks = 1, .n_top = static_cast<int>(rates_.size())};
    LILY_RETURN_IF_ERROR(pass(key, name_steps));
    double best = 1e30, all = 0;
    for (int i = 0; i < repeats_ && all < kEnoughSeconds; ++i) {
      const auto start = std::chrono::steady_clock::now();
      LILY_RETURN_IF_ERROR(pass(key, name_steps));
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      best = std::min(best, took.count());
      all += took.count();
    }
    rates_.push_back({step, bytes, best});
    return {};
  }

  Result<void> copy() {
    const std::size_t bytes =
        quant_extent(WeightLayout::kRowMajor, {spec_.vocab_rows, spec_.hidden, 4}).bytes;
    LILY_TRY(const Buffer from, backend_.allocate(bytes, "a copy's source"));
    LILY_TRY(const Buffer to, backend_.allocate(bytes, "a copy"));
    return time("copy", 2 * bytes, [&] {
      backend_.copy({from.address(), to.address(), static_cast<std::int64_t>(bytes)});
    });
  }
  Result<void> head() {
    bytes_ = 0;
    LILY_TRY(const auto lm_head, matrix(spec_.vocab_rows, spec_.hidden));
    return time("head", bytes_, [&] {
      backend_.head({.control = control_,
                     .h = in_,
                     .norm = norm_,
                     .lm_head = lm_head,
                     .logits = outs_[0],
                     .states = nullptr,
                     .first = 0,
                     .eps = spec_.rms_eps});
    });
  }
  Result<void> delta_projections() {
    bytes_ = 0;
    std::vector<GdnProjectArgs> layers;
    for (int i = 0; i < kLayers; ++i) {
      LILY_TRY(const auto qkv, matrix(spec_.conv_dim(), spec_.hidden));
      LILY_TRY(const auto z, matrix(spec_.value_dim(), spec_.hidden));
      LILY_TRY(const auto b, matrix(spec_.n_value_heads, spec_.hidden));
      LILY_TRY(const auto a, matrix(spec_.n_value_heads, spec_.hidden));
      layers.push_back({control_, in_, norm_, qkv, z, b, a, outs_[0], outs_[1], outs_[2], outs_[3],
                        spec_.rms_eps});
    }
    return time("projections of delta layers", bytes_, [&] {
      for (const auto& layer : layers) backend_.gdn_project(layer);
    });
  }
  Result<void> attention_projections() {
    bytes_ = 0;
    std::vector<AttentionProjectArgs> layers;
    for (int i = 0; i < kLayers; ++i) {
      LILY_TRY(const auto q, matrix(2 * spec_.q_dim(), spec_.hidden));
      LILY_TRY(const auto k, matrix(spec_.kv_dim(), spec_.hidden));
      LILY_TRY(const auto v, matrix(spec_.kv_dim(), spec_.hidden));
      layers.push_back(
          {control_, in_, norm_, q, k, v, outs_[0], outs_[1], outs_[2], spec_.rms_eps});
    }
    return time("projections of attention layers", bytes_, [&] {
      for (const auto& layer : layers) backend_.attention_project(layer);
    });
  }
  Result<void> output_projections() {
    bytes_ = 0;
    std::vector<ProjectResidualArgs> layers;
    for (int i = 0; i < kLayers; ++i) {
      LILY_TRY(const auto weight, matrix(spec_.hidden, spec_.value_dim()));
      layers.push_back({control_, in_, weight, outs_[0]});
    }
    return time("output projections", bytes_, [&] {
      for (const auto& layer : layers) backend_.project_residual(layer);
    });
  }
  // The layers share one set of experts and choose different ones.
  Result<void> experts() {
    const std::int64_t wide = std::int64_t{spec_.n_experts} * spec_.expert_width,
                       deep = std::int64_t{spec_.n_experts} * spec_.hidden;
    LILY_TRY(const auto gate, matrix(wide, spec_.hidden));
    LILY_TRY(const auto up, matrix(wide, spec_.hidden));
    LILY_TRY(const auto down, matrix(deep, spec_.expert_width));
    bytes_ = 0;
    LILY_TRY(const auto shared_gate, matrix(spec_.shared_width, spec_.hidden));
    LILY_TRY(const auto shared_up, matrix(spec_.shared_width, spec_.hidden));
    const std::uint64_t shared_up_bytes = bytes_;
    LILY_TRY(const auto shared_down, matrix(spec_.hidden, spec_.shared_width));
    LILY_TRY(const Buffer chosen, choose_experts());
    const auto ids = [&](int layer) { return chosen.as<std::int32_t>() + layer * spec_.n_chosen; };
    const std::uint64_t one =
        quant_extent(WeightLayout::kRowMajor, {spec_.expert_width, spec_.hidden, 4}).bytes *
        static_cast<std::uint64_t>(spec_.n_chosen);
    LILY_RETURN_IF_ERROR(time("experts, up", kLayers * (2 * one + shared_up_bytes), [&] {
      for (int i = 0; i < kLayers; ++i)
        backend_.experts_up({control_, in_, ids(i), gate, up, shared_gate, shared_up, outs_[0],
                             outs_[1], spec_.n_experts, spec_.n_chosen});
    }));
    return time("experts, down", kLayers * (one + bytes_ - shared_up_bytes), [&] {
      for (int i = 0; i < kLayers; ++i)
        backend_.experts_down({control_, outs_[0], outs_[1], ids(i), norm_, norm_, down,
                               shared_down, outs_[2], spec_.n_experts, spec_.n_chosen});
    });
  }
  // [kLayers, K], ascending in a layer
  Result<Buffer> choose_experts() {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(kLayers * spec_.n_chosen));
    for (int i = 0; i < kLayers; ++i) {
      const auto first = ids.begin() + i * spec_.n_chosen;
      std::iota(first, first + spec_.n_chosen,
                i * spec_.n_chosen % (spec_.n_experts - spec_.n_chosen + 1));
    }
    LILY_TRY(auto buffer, backend_.allocate(ids.size() * sizeof(std::int32_t), "chosen experts"));
    backend_.write(buffer, 0, std::as_bytes(std::span(ids)));
    return buffer;
  }

  Backend& backend_;
  const ModelSpec& spec_;
  int repeats_;
  std::vector<Buffer> buffers_, weights_;
  PassControl* control_ = nullptr;
  float *in_ = nullptr, *norm_ = nullptr;
  float* outs_[4] = {};
  std::uint64_t bytes_ = 0;  // Of matrices made since it was set to 0.
  std::vector<StepRate> rates_;
};

}  // namespace

Result<std::vector<StepRate>> measure_steps(Backend& backend, const ModelSpec& spec, int repeats) {
  return StepRates(backend, spec, repeats).measure();
}

}  // namespace lily
