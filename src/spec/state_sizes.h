// Bytes that a sequence leaves behind, from the shape alone: the one place where they are worked out. The state pool and the KV
// cache are laid out by them (model/state.h), and plans, `lily info` and the counts of a benchmark say the same numbers.
#pragma once

#include <cstddef>

#include "spec/layout.h"
#include "spec/model_spec.h"

namespace lily {

inline constexpr std::size_t kSlotAlign = 4096;

struct StateSizes {
  std::size_t kv_row = 0;              // Keys and values of a position in one attention layer.
  std::size_t kv_bytes_per_token = 0;  // The same over all attention layers.
  std::size_t conv_offset = 0;         // In a delta layer's part of a slot: f32 [Hv, 128, 128], then the window f32 [3, conv_dim].
  std::size_t layer_bytes = 0;         // A delta layer's part.
  std::size_t slot_bytes = 0;          // One recurrent state over all delta layers: their parts, rounded up to kSlotAlign.
};

inline StateSizes state_sizes(const ModelSpec& spec, int kv_element_bytes) {
  const auto delta = sizeof(float) * kDeltaDim * kDeltaDim * static_cast<std::size_t>(spec.n_value_heads);
  const auto window = sizeof(float) * (kConvTaps - 1) * static_cast<std::size_t>(spec.conv_dim());
  StateSizes out;
  out.kv_row = 2 * static_cast<std::size_t>(spec.kv_dim()) * static_cast<std::size_t>(kv_element_bytes);
  out.kv_bytes_per_token = out.kv_row * static_cast<std::size_t>(spec.count(LayerKind::kAttention));
  out.conv_offset = round_up(delta, kSectionAlign);
  out.layer_bytes = out.conv_offset + round_up(window, kSectionAlign);
  out.slot_bytes = round_up(out.layer_bytes * static_cast<std::size_t>(spec.count(LayerKind::kDelta)), kSlotAlign);
  return out;
}

}  // namespace lily
