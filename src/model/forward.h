// The model as steps: one pass over the rows that PassBuffers::control() names, or over parts of sequences.
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

// Which control block the pass reads, and who wrote its tokens there.
struct ControlUse {
  int block = 0;
  PassBuffers::TokensFrom tokens = PassBuffers::TokensFrom::kHost;
};

// Enqueues the pass and returns its ticket; results lie in model.buffers once the ticket is waited for. `cancel` is looked at
// before every mixer, every layer's experts and every block of head rows: kCancelled, and the states that the pass writes to
// are good for nothing.
Result<Ticket> forward(Backend& backend, Model& model, const HeadUse& use, const ControlUse& control = {},
                       const std::atomic<bool>* cancel = nullptr);

// Consecutive tokens of one sequence.
struct PassPart {
  std::span<const TokenId> tokens;  // Empty: one, which an earlier pass writes into the block (HeadUse::next_tokens).
  int position = 0;                 // Of the first token; at 0 the sequence starts anew.
  int sequence = 0;
  int state_in = 0, state_out = 0;  // Slots. Where they differ, the state before the pass stays.
};

struct PassRequest {
  std::span<const PassPart> parts;  // Row after row; with tokens all of them, or none.
  HeadUse head = {};
  std::span<const std::int32_t> head_rows = {};  // Which rows.
  int block = 0;
  const std::atomic<bool>* cancel = nullptr;
};

// Reserves pages, fills in the control and enqueues the pass. No pass in flight reads the same block; with a pass in flight, the pages
// have been reserved before.
Result<Ticket> enqueue_pass(Backend& backend, Model& model, const PassRequest& request);
// The same, waited for.
Result<void> run_pass(Backend& backend, Model& model, const PassRequest& request);

// Reads model.buffers between the pieces of a pass.
class PassWatcher {
 public:
  virtual ~PassWatcher() = default;
  virtual Result<void> after_layer(int layer) = 0;     // The residual stream is there; -1: the embedding's.
  virtual Result<void> after_head(int first_row) = 0;  // The logits of a block of head rows are there.
};
// The pass layer by layer, each handed over and waited for: the same steps and numbers, for who looks inside.
Result<void> run_pass(Backend& backend, Model& model, const PassRequest& request, PassWatcher& watcher);

}  // namespace lily
