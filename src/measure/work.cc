// Counting bytes and multiply-adds of a decoded token.
#include "measure/work.h"

#include "spec/state_sizes.h"

namespace lily {
namespace {

constexpr int kGateBits = 8;  // Router and shared gate; everything else has 4.
constexpr int kKvBytes = 2;

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
  const StateSizes sizes = state_sizes(spec, kKvBytes);
  return {.weight_bytes = layers.bytes + head.bytes,
          .state_bytes = 2 * sizes.slot_bytes,
          .kv_bytes = sizes.kv_bytes_per_token * static_cast<std::uint64_t>(cached_positions),
          .multiply_adds = layers.multiply_adds,
          .head_multiply_adds = head.multiply_adds};
}

}  // namespace lily
