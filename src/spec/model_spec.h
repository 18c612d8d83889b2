// The family as numbers: what a config.json of Qwen3.5/3.6 MoE fixes, derived and checked once (weights/config.h reads it).
// Letters used for shapes everywhere: T rows of a pass, D hidden, Hq/Hkv attention heads, Hk/Hv delta heads, E experts,
// K chosen experts, F expert width, P cached positions, V vocabulary rows.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

namespace lily {

using TokenId = std::int32_t;

// Sizes that every member of the family shares; the kernels are written for them.
inline constexpr int kHeadDim = 256;        // Attention head size.
inline constexpr int kRotaryDims = 64;      // The first dims of a head that rope turns.
inline constexpr int kDeltaDim = 128;       // Key and value size of a delta head.
// Queries and keys of a delta head are divided by sqrt(sum(x^2) + this), as in the published model (transformers). MLX puts
// the same constant on the mean instead, 128 times as much: docs/NUMERICS.md has the difference measured.
inline constexpr float kDeltaNormEps = 1e-6f;
inline constexpr int kConvTaps = 4;         // Causal convolution width; the window holds kConvTaps - 1 rows.
inline constexpr int kQuantGroup = 64;      // Weights that share a scale and a bias.
inline constexpr int kMaxChosenExperts = 16;
inline constexpr int kMaxExperts = 512;

enum class LayerKind { kDelta, kAttention };
enum class ZActivation { kSilu, kSigmoid };  // output_gate_type: "swish" (default) or "sigmoid".

struct RopeSpec {
  double theta = 1e7;
  // YaRN (static, NTK by parts): factor 1 is plain rope.
  double factor = 1.0;
  double original_context = 0.0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
};

struct ModelSpec {
  int n_layers = 0;
  std::vector<LayerKind> layer_kinds;  // [n_layers]
  int hidden = 0;                      // D
  int n_q_heads = 0;                   // Hq
  int n_kv_heads = 0;                  // Hkv
  int n_key_heads = 0;                 // Hk
  int n_value_heads = 0;               // Hv
  int n_experts = 0;                   // E
  int n_chosen = 0;                    // K
  int expert_width = 0;                // F of a routed expert
  int shared_width = 0;                // F of the shared expert
  int vocab_rows = 0;                  // V, rows of embed_tokens and lm_head, padding included
  int max_context = 0;                 // Positions that the checkpoint declares
  float rms_eps = 1e-6f;
  RopeSpec rope;
  ZActivation z_activation = ZActivation::kSilu;
  std::vector<TokenId> end_tokens;     // Any of them ends an answer

  int q_dim() const { return n_q_heads * kHeadDim; }
  int kv_dim() const { return n_kv_heads * kHeadDim; }
  int key_dim() const { return n_key_heads * kDeltaDim; }
  int value_dim() const { return n_value_heads * kDeltaDim; }
  int conv_dim() const { return 2 * key_dim() + value_dim(); }  // q, k, v channels in this order
  int count(LayerKind kind) const {
    int n = 0;
    for (const auto k : layer_kinds) n += k == kind;
    return n;
  }
};

// The 32 angles per position of rope's pairs (i, i + 32), and the factor YaRN puts on the turned dims (1 without it).
// Source: docs/MODEL.md, "Rope"; NTK by parts as in the YaRN paper (Peng et al., 2023), over kRotaryDims.
inline std::vector<double> rope_frequencies(const RopeSpec& rope) {
  constexpr int kPairs = kRotaryDims / 2;
  std::vector<double> out(kPairs);
  const auto turn_dim = [&](double turns) {
    return kRotaryDims * std::log(rope.original_context / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(rope.theta));
  };
  double low = 0.0, high = 0.0;
  if (rope.factor != 1.0) {
    low = std::fmax(std::floor(turn_dim(rope.beta_fast)), 0.0);
    high = std::fmin(std::ceil(turn_dim(rope.beta_slow)), kRotaryDims - 1.0);
  }
  for (int i = 0; i < kPairs; ++i) {
    const double plain = std::pow(rope.theta, -2.0 * i / kRotaryDims);
    if (rope.factor == 1.0) {
      out[static_cast<std::size_t>(i)] = plain;
      continue;
    }
    const double ramp = std::fmin(std::fmax((i - low) / std::fmax(high - low, 0.001), 0.0), 1.0);
    out[static_cast<std::size_t>(i)] = plain / rope.factor * ramp + plain * (1.0 - ramp);
  }
  return out;
}

inline float rope_magnitude(const RopeSpec& rope) {
  return rope.factor == 1.0 ? 1.0f : static_cast<float>(0.1 * std::log(rope.factor) + 1.0);
}

}  // namespace lily
