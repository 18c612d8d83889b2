// Sizes of the pass buffers, and the host's access to them.
#include "model/pass.h"
#include "base/size.h"

#include <algorithm>
#include <cstddef>
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

constexpr std::size_t kBlockRowBytes = sizeof(SamplingControl*) + sizeof(ChosenToken);
constexpr std::size_t kScoreRowBytes = 4 * sizeof(float) + kMaxTopLogProbs * (sizeof(float) + sizeof(std::int32_t));

const Buffer& buffer_at(const std::vector<Buffer>& buffers, const float* address) {
  return *std::find_if(buffers.begin(), buffers.end(), [&](const Buffer& one) { return one.address() == address; });
}

// The first n elements of a buffer.
template <typename T>
Result<std::vector<T>> read_rows(Backend& backend, const Buffer& from, std::size_t n) {
  std::vector<T> out(n);
  LILY_RETURN_IF_ERROR(backend.read(from, 0, std::as_writable_bytes(std::span(out))));
  return out;
}

}  // namespace

std::size_t PassBuffers::bytes(const ModelSpec& spec, int max_rows) {
  Allocator counter(nullptr, nullptr);
  Activation activation{};
  take_activations(counter, spec, max_rows, activation);
  return counter.total() + kBlocks * (sizeof(PassControl) + size(max_rows) * kBlockRowBytes) + size(max_rows) * kScoreRowBytes;
}

Result<PassBuffers> PassBuffers::create(Backend& backend, const ModelSpec& spec, int max_rows) {
  PassBuffers buffers;
  buffers.max_rows_ = max_rows;
  buffers.vocab_rows_ = static_cast<std::size_t>(spec.vocab_rows);
  Allocator allocator(&backend, &buffers.owned_);
  take_activations(allocator, spec, max_rows, buffers.activation_);
  LILY_RETURN_IF_ERROR(allocator.result());
  const std::size_t rows = size(max_rows);
  LILY_TRY(buffers.control_, backend.allocate(kBlocks * sizeof(PassControl), "pass control"));
  LILY_TRY(buffers.sampling_, backend.allocate(kBlocks * rows * sizeof(SamplingControl*), "sampling controls"));
  LILY_TRY(buffers.chosen_, backend.allocate(kBlocks * rows * sizeof(ChosenToken), "chosen tokens"));
  LILY_TRY(buffers.targets_, backend.allocate(rows * sizeof(std::int32_t), "targets"));
  LILY_TRY(buffers.target_log_prob_, backend.allocate(rows * sizeof(float), "scores"));
  LILY_TRY(buffers.top_ids_, backend.allocate(rows * kMaxTopLogProbs * sizeof(std::int32_t), "scores"));
  LILY_TRY(buffers.top_log_probs_, backend.allocate(rows * kMaxTopLogProbs * sizeof(float), "scores"));
  LILY_TRY(buffers.kl_, backend.allocate(rows * sizeof(float), "scores"));
  LILY_TRY(buffers.not_finite_, backend.allocate(rows * sizeof(std::int32_t), "scores"));
  buffers.host_control_ = std::make_unique<PassControl[]>(kBlocks);
  return buffers;
}

// Only what this pass reads of the block, and no token that the device writes.
void PassBuffers::upload_control(Backend& backend, int block, TokensFrom tokens) const {
  const PassControl& control = host_control_[size(block)];
  const auto bytes = std::as_bytes(std::span(&control, 1));
  const auto upload = [&](std::size_t offset, std::size_t n) {
    backend.write(control_, size(block) * sizeof control + offset, bytes.subspan(offset, n));
  };
  upload(0, offsetof(PassControl, segments) + size(control.n_segments) * sizeof(Segment));
  if (tokens == TokensFrom::kHost) upload(offsetof(PassControl, tokens), size(control.n_rows) * sizeof(std::int32_t));
  upload(offsetof(PassControl, head_rows), size(control.n_head_rows) * sizeof(std::int32_t));
}

void PassBuffers::write_sampling(Backend& backend, int row, SamplingControl* address, int block) const {
  backend.write(sampling_, size(block * max_rows_ + row) * sizeof address, std::as_bytes(std::span(&address, 1)));
}

void PassBuffers::write_targets(Backend& backend, std::span<const std::int32_t> targets) const {
  backend.write(targets_, 0, std::as_bytes(targets));
}

Result<const float*> PassBuffers::write_reference_log_probs(Backend& backend, std::span<const float> rows) {
  if (!reference_.address()) {
    LILY_TRY(reference_, backend.allocate(sizeof(float) * kHeadBlockRows * vocab_rows_, "reference distributions"));
  }
  backend.write(reference_, 0, std::as_bytes(rows));
  return reference_.as<const float>();
}

Result<ChosenToken> PassBuffers::read_chosen(Backend& backend, int row, int block) const {
  ChosenToken chosen{};
  LILY_RETURN_IF_ERROR(backend.read(chosen_, size(block * max_rows_ + row) * sizeof chosen, std::as_writable_bytes(std::span(&chosen, 1))));
  return chosen;
}

Result<ScoreRows> PassBuffers::read_score(Backend& backend, int n_rows, int n_top) const {
  const std::size_t rows = size(n_rows), tops = rows * size(n_top);
  ScoreRows out;
  LILY_TRY(out.target_log_prob, read_rows<float>(backend, target_log_prob_, rows));
  LILY_TRY(out.kl, read_rows<float>(backend, kl_, rows));
  LILY_TRY(out.not_finite, read_rows<std::int32_t>(backend, not_finite_, rows));
  LILY_TRY(out.top_ids, read_rows<std::int32_t>(backend, top_ids_, tops));
  LILY_TRY(out.top_log_probs, read_rows<float>(backend, top_log_probs_, tops));
  return out;
}

Result<void> PassBuffers::read_residual(Backend& backend, std::span<float> rows) const {
  return backend.read(buffer_at(owned_, activation_.h), 0, std::as_writable_bytes(rows));
}

Result<void> PassBuffers::read_logits(Backend& backend, std::span<float> rows) const {
  return backend.read(buffer_at(owned_, activation_.logits), 0, std::as_writable_bytes(rows));
}

ScoreAddresses PassBuffers::device_score() const {
  return {target_log_prob_.as<float>(), top_ids_.as<std::int32_t>(), top_log_probs_.as<float>(), kl_.as<float>(),
          not_finite_.as<std::int32_t>()};
}

}  // namespace lily
