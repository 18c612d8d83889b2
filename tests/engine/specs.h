// The 35B's numbers, written out once more for tests (docs/MODEL.md).
#pragma once

#include "spec/model_spec.h"

namespace lily {

inline ModelSpec spec_35b() {
  ModelSpec spec;
  spec.n_layers = 40;
  for (int i = 0; i < 40; ++i) spec.layer_kinds.push_back(i % 4 == 3 ? LayerKind::kAttention : LayerKind::kDelta);
  spec.hidden = 2048;
  spec.n_q_heads = 16;
  spec.n_kv_heads = 2;
  spec.n_key_heads = 16;
  spec.n_value_heads = 32;
  spec.n_experts = 256;
  spec.n_chosen = 8;
  spec.expert_width = 512;
  spec.shared_width = 512;
  spec.vocab_rows = 248'320;
  spec.max_context = 262'144;
  spec.end_tokens = {248'046, 248'044};
  return spec;
}

}  // namespace lily
