// The model as steps: one pass over the rows that PassBuffers::control() names, and the usual pass of one sequence.
#pragma once

#include <atomic>
#include <span>

#include "model/pass.h"
#include "model/state.h"
#include "model/weights.h"

namespace lily {

// A loaded model with everything that a pass touches. Addresses are fixed for its life, so passes can be recorded.
struct Model {
  ModelWeights weights;
  ModelState state;
  PassBuffers buffers;
  Buffer rope_frequencies;  // f64 [32]
  int vocab_used = 0;       // Ids that the tokenizer knows; the rest of the rows is padding and never chosen.
};

struct ModelLimits {
  StateLimits state;
  int max_rows = 512;   // Largest pass: the prefill chunk.
  int vocab_used = 0;
};

Result<Model> create_model(Backend& backend, const LoadedWeights& loaded, const ModelLimits& limits);

// What is computed of the head rows.
struct HeadUse {
  enum class Kind { kNone, kChoose, kScore } kind = Kind::kNone;
  int n_top = 0;                        // kScore: alternatives a row
  const float* reference_log_probs = nullptr;  // kScore: [n_head_rows, vocab_used], see ScoreArgs
  std::int32_t* next_tokens = nullptr;  // kChoose: where the next pass reads its tokens, on devices that run ahead
};

// Enqueues the pass and returns its ticket; results lie in model.buffers once the ticket is waited for. `cancel` is looked at
// before every mixer, every layer's experts and every block of head rows: kCancelled, and the states that the pass writes to
// are good for nothing.
Result<Ticket> forward(Backend& backend, Model& model, const HeadUse& use, const std::atomic<bool>* cancel = nullptr);

// Consecutive tokens of sequence 0, whose live state is slot kLiveSlot.
struct PassRequest {
  std::span<const TokenId> tokens;
  int position = 0;  // Of the first token; at 0 the sequence starts anew.
  HeadUse head;
  std::span<const std::int32_t> head_rows;  // Which of the tokens' rows.
  const std::atomic<bool>* cancel = nullptr;
};
inline constexpr int kLiveSlot = 0;

// Reserves pages, fills in the control, runs the pass and waits for it.
Result<void> run_pass(Backend& backend, Model& model, const PassRequest& request);

}  // namespace lily
