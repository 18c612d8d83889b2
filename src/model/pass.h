// The buffers of a pass: activations between the steps, what the host tells (PassControl, sampling, targets) and what it
// reads back. Allocated once for passes of up to max_rows rows; a pass allocates nothing.
#pragma once

#include <vector>

#include "backend/ops.h"

namespace lily {

// Activations, f32, shapes as in backend/args.h.
struct Activation {
  float *h, *x;
  float *qkv, *z, *b, *a, *q, *k, *v, *decay, *beta;  // Delta layers.
  float *q_gate;                                      // Attention layers; q, k, v are shared with the delta layers.
  float *mixed;                                       // Output of either mixer, before its output projection.
  std::int32_t* experts;
  float *expert_weights, *shared_weight, *act, *shared_act;
  float* logits;  // [kHeadBlockRows, V]
};

// Results of score(), a row per head row.
struct ScoreRows {
  float* target_log_prob;
  std::int32_t* top_ids;   // [rows, kMaxTopLogProbs], row stride n_top of the pass
  float* top_log_probs;
  float* kl;
  std::int32_t* not_finite;
};

class PassBuffers {
 public:
  static Result<PassBuffers> create(Backend& backend, const ModelSpec& spec, int max_rows);
  // Bytes that create() would allocate.
  static std::size_t bytes(const ModelSpec& spec, int max_rows);

  int max_rows() const { return max_rows_; }
  const Activation& activation() const { return activation_; }

  // Filled by the host before a pass. On a device of its own memory forward() uploads it.
  PassControl& control() { return *host_control_; }
  const PassControl* device_control() const { return control_.as<const PassControl>(); }
  void upload_control(Backend& backend) const;

  SamplingControl** sampling() const { return sampling_.as<SamplingControl*>(); }  // [max_rows]
  ChosenToken* chosen() const { return chosen_.as<ChosenToken>(); }                // [max_rows]
  std::int32_t* targets() const { return targets_.as<std::int32_t>(); }            // [max_rows]
  const ScoreRows& score() const { return score_; }
  // [kHeadBlockRows, V]: given distributions to compare with; allocated when first asked for.
  Result<float*> reference_log_probs(Backend& backend);

 private:
  int max_rows_ = 0;
  std::size_t vocab_rows_ = 0;
  std::vector<Buffer> owned_;
  Activation activation_{};
  ScoreRows score_{};
  Buffer control_, sampling_, chosen_, targets_, reference_;
  std::shared_ptr<PassControl> host_control_;
};

}  // namespace lily
