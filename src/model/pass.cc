// Sizes of the pass buffers.
#include "model/pass.h"

#include <algorithm>
#include <optional>

namespace lily {
namespace {

// Gives out buffers and adds up their bytes; without a backend it only adds up.
class Allocator {
 public:
  Allocator(Backend* backend, std::vector<Buffer>* owned) : backend_(backend), owned_(owned) {}

  template <typename T>
  void take(T*& target, int rows, int cols) {
    const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
    total_ += bytes;
    if (!backend_ || error_) return;
    auto buffer = backend_->allocate(bytes, "activations");
    if (!buffer) {
      error_ = std::move(buffer).error();
      return;
    }
    target = buffer->template as<T>();
    owned_->push_back(*std::move(buffer));
  }

  std::size_t total() const { return total_; }
  Result<void> result() const {
    if (error_) return Error(*error_);
    return {};
  }

 private:
  Backend* backend_;
  std::vector<Buffer>* owned_;
  std::size_t total_ = 0;
  std::optional<Error> error_;
};

void take_delta(Allocator& to, const ModelSpec& spec, int rows, Activation& out) {
  to.take(out.qkv, rows, spec.conv_dim());
  to.take(out.z, rows, spec.value_dim());
  to.take(out.b, rows, spec.n_value_heads);
  to.take(out.a, rows, spec.n_value_heads);
  to.take(out.decay, rows, spec.n_value_heads);
  to.take(out.beta, rows, spec.n_value_heads);
}

void take_mixer(Allocator& to, const ModelSpec& spec, int rows, Activation& out) {
  to.take(out.q, rows, std::max(spec.key_dim(), spec.q_dim()));
  to.take(out.k, rows, std::max(spec.key_dim(), spec.kv_dim()));
  to.take(out.v, rows, std::max(spec.value_dim(), spec.kv_dim()));
  to.take(out.q_gate, rows, 2 * spec.q_dim());
  to.take(out.mixed, rows, std::max(spec.value_dim(), spec.q_dim()));
}

void take_experts(Allocator& to, const ModelSpec& spec, int rows, Activation& out) {
  to.take(out.experts, rows, spec.n_chosen);
  to.take(out.expert_weights, rows, spec.n_chosen);
  to.take(out.shared_weight, rows, 1);
  to.take(out.act, rows, spec.n_chosen * spec.expert_width);
  to.take(out.shared_act, rows, spec.shared_width);
}

void take_activations(Allocator& to, const ModelSpec& spec, int rows, Activation& out) {
  to.take(out.h, rows, spec.hidden);
  to.take(out.x, rows, spec.hidden);
  take_delta(to, spec, rows, out);
  take_mixer(to, spec, rows, out);
  take_experts(to, spec, rows, out);
  to.take(out.logits, kHeadBlockRows, spec.vocab_rows);
}

void take_score(Allocator& to, int rows, ScoreRows& out) {
  to.take(out.target_log_prob, rows, 1);
  to.take(out.top_ids, rows, kMaxTopLogProbs);
  to.take(out.top_log_probs, rows, kMaxTopLogProbs);
  to.take(out.kl, rows, 1);
  to.take(out.not_finite, rows, 1);
}

}  // namespace

std::size_t PassBuffers::bytes(const ModelSpec& spec, int max_rows) {
  Allocator counter(nullptr, nullptr);
  Activation activation{};
  ScoreRows score{};
  take_activations(counter, spec, max_rows, activation);
  take_score(counter, max_rows, score);
  return counter.total();
}

Result<PassBuffers> PassBuffers::create(Backend& backend, const ModelSpec& spec, int max_rows) {
  PassBuffers buffers;
  buffers.max_rows_ = max_rows;
  buffers.vocab_rows_ = static_cast<std::size_t>(spec.vocab_rows);
  Allocator allocator(&backend, &buffers.owned_);
  take_activations(allocator, spec, max_rows, buffers.activation_);
  take_score(allocator, max_rows, buffers.score_);
  LILY_RETURN_IF_ERROR(allocator.result());
  const auto rows = static_cast<std::size_t>(max_rows);
  LILY_TRY(buffers.control_, backend.allocate(sizeof(PassControl), "pass control"));
  LILY_TRY(buffers.sampling_, backend.allocate(rows * sizeof(SamplingControl*), "sampling controls"));
  LILY_TRY(buffers.chosen_, backend.allocate(rows * sizeof(ChosenToken), "chosen tokens"));
  LILY_TRY(buffers.targets_, backend.allocate(rows * sizeof(std::int32_t), "targets"));
  buffers.host_control_ = std::make_shared<PassControl>();
  return buffers;
}

void PassBuffers::upload_control(Backend& backend) const {
  backend.write(control_, 0, std::as_bytes(std::span(host_control_.get(), 1)));
}

Result<float*> PassBuffers::reference_log_probs(Backend& backend) {
  if (!reference_.address()) {
    LILY_TRY(reference_, backend.allocate(sizeof(float) * kHeadBlockRows * vocab_rows_, "reference distributions"));
  }
  return reference_.as<float>();
}

}  // namespace lily
