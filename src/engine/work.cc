// Counting bytes and multiply-adds of a decoded token.
#include "engine/work.h"

#include "spec/layout.h"

namespace lily {
namespace {

constexpr int kGateBits = 8;  // Router and shared gate; everything else has 4.
constexpr std::uint64_t kKvBytes = 2;

class Counter {
 public:
  void matrix(std::int64_t rows, std::int64_t cols, int bits = 4) {
    const auto elements = static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(cols);
    bytes += elements * static_cast<std::uint64_t>(bits) / 8 + elements / kQuantGroup * 4;
    multiply_adds += elements;
  }
  std::uint64_t bytes = 0, multiply_adds = 0;
};

void count_delta(const ModelSpec& s, Counter& count) {
  count.matrix(s.conv_dim(), s.hidden);
  count.matrix(s.value_dim(), s.hidden);
  count.matrix(2 * s.n_value_heads, s.hidden);
  count.matrix(s.hidden, s.value_dim());
}

void count_attention(const ModelSpec& s, Counter& count) {
  count.matrix(2 * s.q_dim(), s.hidden);  // Queries and their gate.
  count.matrix(2 * s.kv_dim(), s.hidden);
  count.matrix(s.hidden, s.q_dim());
}

void count_experts(const ModelSpec& s, Counter& count) {
  count.matrix(s.n_experts + 1, s.hidden, kGateBits);
  count.matrix(std::int64_t{3} * s.n_chosen * s.expert_width, s.hidden);
  count.matrix(std::int64_t{3} * s.shared_width, s.hidden);
}

}  // namespace

TokenWork work_per_token(const ModelSpec& spec, std::int64_t cached_positions) {
  Counter layers, head;
  for (const LayerKind kind : spec.layer_kinds) {
    kind == LayerKind::kDelta ? count_delta(spec, layers) : count_attention(spec, layers);
    count_experts(spec, layers);
  }
  head.matrix(spec.vocab_rows, spec.hidden);
  const auto n_delta = static_cast<std::uint64_t>(spec.count(LayerKind::kDelta));
  const auto n_attention = static_cast<std::uint64_t>(spec.count(LayerKind::kAttention));
  const auto state_floats = static_cast<std::uint64_t>(spec.n_value_heads) * kDeltaDim * kDeltaDim;
  const auto kv_row = 2 * static_cast<std::uint64_t>(spec.kv_dim()) * kKvBytes;
  return {.weight_bytes = layers.bytes + head.bytes,
          .state_bytes = 2 * n_delta * state_floats * sizeof(float),
          .kv_bytes = n_attention * kv_row * static_cast<std::uint64_t>(cached_positions),
          .multiply_adds = layers.multiply_adds,
          .head_multiply_adds = head.multiply_adds};
}

}  // namespace lily
