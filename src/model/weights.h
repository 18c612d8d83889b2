// The weights of one model as the steps want them: every matrix and vector resolved to an address in the backend's memory.
#pragma once

#include <variant>
#include <vector>

#include "backend/ops.h"
#include "weights/load.h"

namespace lily {

struct DeltaWeights {
  QuantMatrix in_qkv, in_z, in_b, in_a, out;
  const float* conv;     // [conv_dim, 4]
  const float* a_log;    // [Hv]
  const float* dt_bias;  // [Hv]
  const float* norm;     // [128]
};

struct AttentionWeights {
  QuantMatrix in_q, in_k, in_v, out;
  const float* q_norm;  // [256]
  const float* k_norm;  // [256]
};

struct ExpertWeights {
  QuantMatrix router, shared_gate;           // [E, D], [1, D]
  QuantMatrix gate, up, down;                // [E * F, D] twice, [E * D, F]
  QuantMatrix shared_up_gate, shared_up, shared_down;  // [Fs, D] twice, [D, Fs]
};

struct LayerWeights {
  const float* input_norm;  // [D], multiplied as stored
  const float* post_norm;   // [D]
  std::variant<DeltaWeights, AttentionWeights> mixer;
  ExpertWeights experts;
};

struct ModelWeights {
  ModelSpec spec;
  QuantMatrix embedding, lm_head;  // [V, D]
  const float* final_norm;         // [D]
  std::vector<LayerWeights> layers;
  Buffer image;                    // Keeps the memory behind every pointer.

  // Hands the image to the backend and resolves every name of the manifest. kCorrupt names a tensor that is not there.
  static Result<ModelWeights> bind(Backend& backend, const LoadedWeights& loaded);
};

}  // namespace lily
