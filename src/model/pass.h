// The buffers of a pass: activations between the steps, what the host tells (PassControl, sampling, targets) and what it
// reads back. Allocated once for passes of up to max_rows rows; a pass allocates nothing.
#pragma once

#include <memory>
#include <span>
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

// Where score() writes, a row per head row: addresses in the backend's memory.
struct ScoreAddresses {
  float* target_log_prob;
  std::int32_t* top_ids;   // [rows, n_top of the pass]
  float* top_log_probs;
  float* kl;
  std::int32_t* not_finite;
};

// What it wrote, read back.
struct ScoreRows {
  std::vector<float> target_log_prob, kl;   // [rows]
  std::vector<std::int32_t> not_finite;     // [rows]
  std::vector<std::int32_t> top_ids;        // [rows, n_top]
  std::vector<float> top_log_probs;
};

class PassBuffers {
 public:
  static Result<PassBuffers> create(Backend& backend, const ModelSpec& spec, int max_rows);
  // Bytes that create() would allocate.
  static std::size_t bytes(const ModelSpec& spec, int max_rows);

  int max_rows() const { return max_rows_; }

  // What the host tells a pass, and where it chooses tokens, exists twice: while a pass reads one block, the host fills the other for the
  // pass behind it.
  static constexpr int kBlocks = 2;

  // The host's side: filled in before a pass and read after it was waited for.
  PassControl& control(int block = 0) { return host_control_[static_cast<std::size_t>(block)]; }  // forward() uploads it.
  enum class TokensFrom { kHost, kDevice };  // kDevice: an earlier pass wrote them into the block.
  void upload_control(Backend& backend, int block, TokensFrom tokens) const;
  void write_sampling(Backend& backend, int row, SamplingControl* address, int block = 0) const;
  void write_targets(Backend& backend, std::span<const std::int32_t> targets) const;
  // Distributions [rows <= kHeadBlockRows, vocab_used] to compare with; their address. Memory for them is allocated when first asked for.
  Result<const float*> write_reference_log_probs(Backend& backend, std::span<const float> rows);
  Result<ChosenToken> read_chosen(Backend& backend, int row, int block = 0) const;
  Result<ScoreRows> read_score(Backend& backend, int n_rows, int n_top) const;
  Result<void> read_residual(Backend& backend, std::span<float> rows) const;  // [rows, D], the pass's first.
  Result<void> read_logits(Backend& backend, std::span<float> rows) const;    // [rows <= kHeadBlockRows, V] of the last block.

  // The steps' side: addresses in the backend's memory, which the host reads and writes through the above alone.
  const Activation& activation() const { return activation_; }
  PassControl* device_control(int block) const { return control_.as<PassControl>() + block; }
  std::int32_t* device_tokens(int block) const { return device_control(block)->tokens; }  // An address: nothing is read.
  SamplingControl** device_sampling(int block) const { return sampling_.as<SamplingControl*>() + block * max_rows_; }  // [max_rows]
  ChosenToken* device_chosen(int block) const { return chosen_.as<ChosenToken>() + block * max_rows_; }                // [max_rows]
  const std::int32_t* device_targets() const { return targets_.as<const std::int32_t>(); }   // [max_rows]
  ScoreAddresses device_score() const;

 private:
  int max_rows_ = 0;
  std::size_t vocab_rows_ = 0;
  std::vector<Buffer> owned_;
  Activation activation_{};
  Buffer control_, sampling_, chosen_;  // [kBlocks] times what a pass needs.
  Buffer targets_, reference_;
  Buffer target_log_prob_, top_ids_, top_log_probs_, kl_, not_finite_;
  std::unique_ptr<PassControl[]> host_control_;
};

}  // namespace lily
