// What Lily offers: a loaded model, sessions that answer, and teacher-forced scores. Programs on top see this file, never a tensor.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backends.h"
#include "backend/ops.h"
#include "base/file.h"
#include "base/result.h"
#include "engine/plan.h"
#include "engine/reuse.h"
#include "engine/sampling.h"
#include "engine/token_constraint.h"
#include "text/tokenizer.h"
#include "weights/load.h"

namespace lily {

struct EngineOptions {
  Path model;                   // A checkpoint folder.
  std::string backend = "cpu";  // One of kBackendNames.
  BackendOptions backend_options;
  // In place of both: the caller opens one.
  std::function<Result<std::unique_ptr<Backend>>()> make_backend = {};
  int chunk_tokens = 512;       // Rows of a prefill pass, 1 .. 2,048.
  int context_tokens = 0;       // Positions a session may hold; 0: what the model declares, as far as memory goes.
  bool beyond_declared = false; // context_tokens may exceed what the model declares: positions it was never trained on.
  int n_checkpoints = 0;        // Recurrent states kept for reuse over one context of positions, in place of checkpoint_bytes.
  int n_sequences = 1;          // Answers that a Scheduler may run at a time, 1 .. 64.
  std::int64_t kv_tokens = 0;   // Positions that all of them may hold together, at least one context; 0: as many as fit.
  std::size_t checkpoint_bytes = 0;  // What may be held of earlier prompts and answers; 0: nothing is.
  bool pack = true;             // false: weights are packed in memory and nothing is written.
  std::function<void(const PackProgress&)> progress = {};
};

enum class FinishReason { kEnd, kStopString, kLength, kContextFull, kCancelled };
std::string_view finish_name(FinishReason reason);

// One generated token. `text` holds whole characters only and never the beginning of a possible stop string, so it may be
// empty, and may bring text held back earlier. When the answer ends, what is still held back comes as a last event with token -1
// and nothing else.
struct TokenEvent {
  TokenId token;
  std::string_view text;
  float log_prob;               // The model's own: before penalties, bias and temperature.
  std::span<const std::int32_t> top_ids;
  std::span<const float> top_log_probs;
};

struct ScoredRow {
  bool has_next = false;    // A token is known to be behind the row.
  float next_log_prob = 0;  // Of the token behind the row; 0 where there is none.
  std::vector<std::int32_t> top_ids;
  std::vector<float> top_log_probs;
  float kl = 0;
};

struct GenerateRequest {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  int max_tokens = 0;                       // 0: until the context is full.
  std::vector<std::string> stop = {};            // At most 16 of 1 .. 1,024 bytes. Their text is not part of the answer.
  std::vector<int> borders = {};            // Positions of the prompt where messages begin, ascending: states are kept there.
  // Looked at before every pass, and in the prompt's passes before every half of a layer where the backend computes a pass while it is
  // named. Whole chunks of a prompt that is stopped are kept.
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(const TokenEvent&)> on_token = {};
  std::function<void(int done, int total)> on_prefill = {};  // Prompt tokens computed so far.
  // Where it is there, the prompt is computed whole, whatever is kept of it, and told before the first token: row i predicts prompt[i + 1].
  std::function<void(std::vector<ScoredRow>)> on_prompt_scored = {};
  int prompt_top = 0;  // Alternatives of each of these rows.
  std::shared_ptr<TokenConstraint> constraint = {};
  bool lockstep = false;  // A pass is enqueued when the token before it is known to the host, on every device.
};

struct GenerateResult {
  std::vector<TokenId> tokens;  // Without the end token.
  std::string text;             // Special tokens left out.
  FinishReason finish = FinishReason::kEnd;
  std::string stop_string;      // The one that matched.
  TokenId end_token = -1;       // The one that ended it.
  int prompt_tokens = 0, cached_tokens = 0;
  ReuseReport reuse;
  double prefill_seconds = 0, decode_seconds = 0;
  int decode_passes = 0;              // Behind the prompt's. On a device that runs ahead one may be past the end of the answer.
  std::uint64_t decode_barriers = 0;  // Backend::barriers() of the decode passes.
  std::uint64_t decode_launches = 0;  // Backend::launches() of them.
};

// Tokens a second, 0 where nothing was measured.
double decode_rate(const GenerateResult& result);
double prefill_rate(const GenerateResult& result);

struct ScoreRequest {
  std::span<const TokenId> ids;   // Row i predicts ids[i + 1].
  int first = 0, end = 0;         // Rows first .. end - 1 are scored; end 0: all of them.
  int n_top = 0;
  std::span<const float> reference_log_probs = {};  // Empty, or [rows, vocab_used]: KL(reference || ours) is wanted.
  const std::atomic<bool>* cancel = nullptr;        // Looked at as in GenerateRequest.
};

class Scheduler;
class Scorer;
class Serving;
class Session;

class Engine {
 public:
  struct Impl;  // engine/impl.h
  static Result<std::unique_ptr<Engine>> open(const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const ModelSpec& spec() const;
  const Tokenizer& tokenizer() const;
  const GenerationDefaults& generation_defaults() const;
  const BackendInfo& backend() const;
  int context_tokens() const;

  // Of all that is computed from now on; what the session kept is lost. kUnsupported where the backend has none to switch. After
  // kNoMemory nothing may be computed before another call succeeds.
  Result<void> set_mechanisms(const Mechanisms& mechanisms);

  // The one session of this engine. It starts with nothing kept.
  Session& session();
  // Log-probabilities of a given text, from an empty state; what the session kept is lost. kCancelled where the request was stopped.
  Result<std::vector<ScoredRow>> score(const ScoreRequest& request);

 private:
  friend class Scheduler;
  friend class Scorer;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// One request after the other. A prompt that begins as an earlier one or its answer did is computed only from the deepest kept state on.
class Session {
 public:
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // Errors: kInvalidArgument (empty prompt, ids out of range, sampling), kTooLarge (prompt longer than the context),
  // kNotFinite. A cancelled answer is a result, not an error.
  Result<GenerateResult> generate(const GenerateRequest& request);
  void clear();

 private:
  friend class Engine;
  friend class Scheduler;
  explicit Session(Engine::Impl& engine);
  Engine::Impl& engine_;
  std::unique_ptr<Serving> serving_;  // Null: nothing is kept.
};

}  // namespace lily
