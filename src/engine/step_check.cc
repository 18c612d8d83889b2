// Random arguments, a pass, and its verdict.
#include "engine/step_check.h"

#include <vector>

#include "base/bf16.h"
#include "base/random.h"

namespace lily {
namespace {

constexpr int kPosition = 100;  // Of the row: two pages.
constexpr int kStateFloats = 5000;

class StepCheck {
 public:
  StepCheck(Backend& backend, const ModelSpec& spec) : backend_(backend), spec_(spec) {}

  Result<void> run() {
    LILY_TRY(const auto* control, one_row());
    LILY_TRY(const auto attention, attention_args(control));
    LILY_TRY(const auto head, head_args(control));
    LILY_TRY(auto* const from, floats(64));
    LILY_TRY(auto* const to, floats(64));
    LILY_TRY(auto* const state, floats(kStateFloats));
    LILY_TRY(auto* const other, floats(kStateFloats));
    LILY_TRY(auto* const sink, put(std::vector<std::uint32_t>(2 * kFoldWords)));
    if (backend_.begin({.rows_bound = 1, .head_blocks = 1})) {
      backend_.attention(attention);
      backend_.head(head);
      backend_.copy({from, to, 37});
      backend_.copy({state, other, kStateFloats * sizeof(float)});
      backend_.fold({{}, state, kStateFloats * sizeof(float), sink});
      backend_.fold({head.lm_head, nullptr, 0, sink + kFoldWords});
    }
    return backend_.wait(backend_.submit());
  }

 private:
  template <typename T>
  Result<T*> put(const std::vector<T>& values) {
    LILY_TRY(auto buffer, backend_.allocate(values.size() * sizeof(T), "a step's arguments"));
    backend_.write(buffer, 0, std::as_bytes(std::span(values)));
    buffers_.push_back(std::move(buffer));
    return buffers_.back().as<T>();
  }
  float draw() { return 2 * uniform_draw(1, n_drawn_++) - 1; }
  Result<float*> floats(int n) {
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& v : values) v = draw();
    return put(values);
  }
  Result<const PassControl*> one_row() {
    std::vector<PassControl> control(1);
    control[0].n_rows = control[0].n_segments = control[0].n_head_rows = 1;
    control[0].segments[0].n_rows = 1;
    control[0].segments[0].position = kPosition;
    LILY_TRY(const auto* at, put(control));
    return at;
  }
  Result<AttentionArgs> attention_args(const PassControl* control) {
    std::vector<Bf16> pages(
        static_cast<std::size_t>(2 * spec_.n_kv_heads * 2 * kKvPageTokens * kHeadDim));
    for (Bf16& v : pages) v = float_to_bf16(draw());
    LILY_TRY(auto* const kv, put(pages));
    LILY_TRY(auto* const table, put(std::vector<std::int32_t>{1, 0}));
    LILY_TRY(auto* const q, floats(spec_.q_dim()));
    LILY_TRY(auto* const q_gate, floats(2 * spec_.q_dim()));
    LILY_TRY(auto* const y, floats(spec_.q_dim()));
    return AttentionArgs{control, q, q_gate, {kv, table, 2, spec_.n_kv_heads}, y, spec_.n_q_heads};
  }
  Result<HeadArgs> head_args(const PassControl* control) {
    const auto extent = quant_extent(WeightLayout::kRowMajor, {spec_.vocab_rows, spec_.hidden, 4});
    std::vector<std::uint16_t> weights(extent.bytes / 2);
    for (auto& w : weights) w = float_to_bf16(draw());  // As codes any bits will do.
    LILY_TRY(auto* const at, put(weights));
    const QuantMatrix lm_head{at,
                              at + extent.scales / 2,
                              at + extent.biases / 2,
                              spec_.vocab_rows,
                              spec_.hidden,
                              4,
                              static_cast<std::uint32_t>(WeightLayout::kRowMajor)};
    LILY_TRY(auto* const h, floats(spec_.hidden));
    LILY_TRY(auto* const norm, floats(spec_.hidden));
    LILY_TRY(auto* const logits, floats(kHeadBlockRows * spec_.vocab_rows));
    LILY_TRY(auto* const states, floats(spec_.hidden));
    return HeadArgs{control, h, norm, lm_head, logits, states, 0, spec_.rms_eps};
  }

  Backend& backend_;
  const ModelSpec& spec_;
  std::uint64_t n_drawn_ = 0;
  std::vector<Buffer> buffers_;
};

}  // namespace

Result<void> check_steps(Backend& backend, const ModelSpec& spec) {
  return StepCheck(backend, spec).run();
}

}  // namespace lily
