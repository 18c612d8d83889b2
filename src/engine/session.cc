// One timeline: how much of a prompt is already there, the rest in chunks, then token after token.
#include <algorithm>
#include <chrono>
#include <optional>

#include "base/log.h"
#include "engine/answer_passes.h"
#include "engine/impl.h"
#include "engine/stop_strings.h"
#include "text/stream_decoder.h"

namespace lily {
namespace {

constexpr std::size_t kMaxStops = 16;
constexpr std::size_t kMaxStopBytes = 1024;
constexpr int kLiveSlots = 2;  // Behind them the pool holds checkpoints.

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool cancelled(const GenerateRequest& request) {
  return request.cancel && request.cancel->load(std::memory_order_relaxed);
}

}  // namespace

// The tokens that KV cache and live state stand for, and the states kept beside the live one. Passes leave their state in the other of
// slots 0 and 1, so that a pass that was cancelled or is one too many leaves no trace.
struct Session::Timeline {
  struct Checkpoint {
    int position;
    int slot;
  };
  std::vector<TokenId> tokens;
  int live = 0;                         // The slot of the state behind them.
  std::vector<Checkpoint> checkpoints;  // The least recently used first.
  std::vector<int> free_slots;

  int common_prefix(std::span<const TokenId> prompt) const {
    const auto [mine, theirs] = std::mismatch(tokens.begin(), tokens.end(), prompt.begin(), prompt.end());
    return static_cast<int>(mine - tokens.begin());
  }

  // A pass over `more` is done and right.
  void append(std::span<const TokenId> more, int state) {
    tokens.insert(tokens.end(), more.begin(), more.end());
    live = state;
  }

  // States past `position` stand for tokens that are about to be replaced.
  void forget_past(int position) {
    std::erase_if(checkpoints, [&](const Checkpoint& c) {
      if (c.position <= position) return false;
      free_slots.push_back(c.slot);
      return true;
    });
  }

  // A slot for a new checkpoint: a free one, or that of the least recently used. -1: none exists.
  int take_slot() {
    if (free_slots.empty() && !checkpoints.empty()) {
      free_slots.push_back(checkpoints.front().slot);
      checkpoints.erase(checkpoints.begin());
    }
    if (free_slots.empty()) return -1;
    const int slot = free_slots.back();
    free_slots.pop_back();
    return slot;
  }
};

// What one call of generate() carries from step to step.
class Session::Generation {
 public:
  Generation(Engine::Impl& engine, const GenerateRequest& request)
      : engine_(engine),
        request_(request),
        decoder_(*engine.tokenizer, {.skip_special = true}),
        stops_(request.stop),
        limit_(engine.context_tokens() - static_cast<int>(request.prompt.size())) {
    if (request.max_tokens > 0) limit_ = std::min(limit_, request.max_tokens);
  }

  GenerateResult& result() { return result_; }
  int limit() const { return limit_; }  // Tokens at most.

  void first_token_is_there() {
    result_.prefill_seconds = seconds_since(started_);
    decode_started_ = Clock::now();
  }

  // Takes the token that the last pass chose. True: the answer goes on.
  Result<bool> take(const ChosenToken& chosen) {
    if (chosen.not_finite) return Error{ErrorCode::kNotFinite, "the model computed a logit that is not finite"};
    if (chosen.token < 0) return Error{ErrorCode::kInvalidArgument, "logit_bias: no token is left to choose"};
    const auto& ends = engine_.model.weights.spec.end_tokens;
    if (std::find(ends.begin(), ends.end(), chosen.token) != ends.end()) {
      result_.end_token = chosen.token;
      return finish(FinishReason::kEnd);
    }
    result_.tokens.push_back(chosen.token);
    emit(stops_.push(decoder_.push(chosen.token)), chosen);
    if (stops_.matched()) return finish(FinishReason::kStopString);
    if (static_cast<int>(result_.tokens.size()) < limit_) return true;
    return finish(limit_ == request_.max_tokens ? FinishReason::kLength : FinishReason::kContextFull);
  }

  bool finish(FinishReason reason) {
    result_.finish = reason;
    (decode_started_ ? result_.decode_seconds : result_.prefill_seconds) = seconds_since(decode_started_.value_or(started_));
    if (stops_.matched()) {
      result_.stop_string = *stops_.matched();
    } else {
      const std::string rest = stops_.push(decoder_.finish()) + stops_.finish();
      result_.text += rest;
      if (!rest.empty() && request_.on_token) request_.on_token({-1, rest, 0.0f, {}, {}});
    }
    return false;
  }

 private:
  void emit(const std::string& text, const ChosenToken& chosen) {
    result_.text += text;
    if (!request_.on_token) return;
    const auto n_top = static_cast<std::size_t>(chosen.n_top);
    request_.on_token({chosen.token, text, chosen.log_prob, std::span(chosen.top_ids, n_top),
                       std::span(chosen.top_log_probs, n_top)});
  }

  Engine::Impl& engine_;
  const GenerateRequest& request_;
  StreamDecoder decoder_;
  StopStrings stops_;
  int limit_;
  Clock::time_point started_ = Clock::now();
  std::optional<Clock::time_point> decode_started_;
  GenerateResult result_;
};

namespace {

Result<void> check_request(const Engine::Impl& engine, const GenerateRequest& request) {
  const auto vocab_used = engine.model.vocab_used;
  if (request.prompt.empty()) return Error{ErrorCode::kInvalidArgument, "the prompt is empty: at least one token is needed"};
  if (request.prompt.size() >= static_cast<std::size_t>(engine.context_tokens())) {
    return Error{ErrorCode::kTooLarge, "the prompt has " + std::to_string(request.prompt.size()) +
                                           " tokens, the context holds " + std::to_string(engine.context_tokens()) +
                                           " and one is needed for the answer"};
  }
  for (const TokenId id : request.prompt) {
    if (id < 0 || id >= vocab_used) {
      return Error{ErrorCode::kInvalidArgument, "prompt: token " + std::to_string(id) + ", expected 0 .. " + std::to_string(vocab_used - 1)};
    }
  }
  if (request.stop.size() > kMaxStops) {
    return Error{ErrorCode::kInvalidArgument, "stop: " + std::to_string(request.stop.size()) + " strings, at most 16"};
  }
  for (const auto& stop : request.stop) {
    if (stop.empty() || stop.size() > kMaxStopBytes) {
      return Error{ErrorCode::kInvalidArgument, "stop: a string of " + std::to_string(stop.size()) + " bytes, expected 1 .. " +
                                                    std::to_string(kMaxStopBytes)};
    }
  }
  if (request.max_tokens < 0) {
    return Error{ErrorCode::kInvalidArgument, "max_tokens: " + std::to_string(request.max_tokens) + ", expected 1 or more, or 0 for no limit"};
  }
  return check_sampling(request.sampling, vocab_used);
}

}  // namespace

Session::Session(Engine::Impl& engine) : engine_(engine), timeline_(std::make_unique<Timeline>()) { clear(); }
Session::~Session() = default;

void Session::clear() {
  passes_.reset();
  *timeline_ = {};
  for (int slot = engine_.model.state.limits().n_slots; --slot >= kLiveSlots;) timeline_->free_slots.push_back(slot);
  engine_.model.state.truncate(0, 0);
}

// The last answer was given when its last token was known. A pass that was one too many may still be under way.
void Session::settle() {
  if (!passes_) return;
  const auto done = passes_->drain();
  passes_.reset();
  if (done) return;
  log_warning("the step behind the last answer failed, its state is dropped: " + done.error().message);
  clear();
}

// Brings the live state to the deepest kept position that the prompt shares, short of its last token, whose logits are wanted.
Result<int> Session::resume(std::span<const TokenId> prompt) {
  const int shared = std::min(timeline_->common_prefix(prompt), static_cast<int>(prompt.size()) - 1);
  if (shared == static_cast<int>(timeline_->tokens.size())) return shared;
  return rewind(shared);
}

// Brings the live state to the deepest checkpoint at or before `limit`, or to the start where there is none.
Result<int> Session::rewind(int limit) {
  Timeline& timeline = *timeline_;
  timeline.forget_past(limit);
  int position = 0;
  const auto deepest = std::max_element(timeline.checkpoints.begin(), timeline.checkpoints.end(),
                                        [](const auto& a, const auto& b) { return a.position < b.position; });
  if (deepest != timeline.checkpoints.end()) {
    position = deepest->position;
    LILY_RETURN_IF_ERROR(engine_.model.state.copy_slot(*engine_.backend, deepest->slot, timeline.live));
    std::rotate(deepest, deepest + 1, timeline.checkpoints.end());
  }
  timeline.tokens.resize(static_cast<std::size_t>(position));
  return position;
}

Result<void> Session::keep_checkpoint(int position) {
  for (const auto& kept : timeline_->checkpoints) {
    if (kept.position == position) return {};
  }
  const int slot = timeline_->take_slot();
  if (slot < 0) return {};
  LILY_RETURN_IF_ERROR(engine_.model.state.copy_slot(*engine_.backend, timeline_->live, slot));
  timeline_->checkpoints.push_back({position, slot});
  return {};
}

// The timeline is what a pass makes it. Positions where the request wants a checkpoint end a pass.
Result<void> Session::extend(const GenerateRequest& request, std::span<const TokenId> tokens, int state) {
  timeline_->append(tokens, state);
  const int position = static_cast<int>(timeline_->tokens.size());
  if (position == request.checkpoint_at) LILY_RETURN_IF_ERROR(keep_checkpoint(position));
  return {};
}

// A chunk of the prompt that is not its last one.
Result<void> Session::compute(const GenerateRequest& request, std::span<const TokenId> tokens) {
  const int before = timeline_->live, after = 1 - before;
  LILY_RETURN_IF_ERROR(run_pass(*engine_.backend, engine_.model,
                                {.tokens = tokens, .position = static_cast<int>(timeline_->tokens.size()),
                                 .state_in = before, .state_out = after, .cancel = request.cancel}));
  return extend(request, tokens, after);
}

// Computes the rest of the prompt but for its last chunk, and enqueues that: it chooses the first token. False: cancelled, and the
// timeline ends with the last whole chunk.
Result<bool> Session::prefill(const GenerateRequest& request) {
  const std::span<const TokenId> prompt = request.prompt;
  const int total = static_cast<int>(prompt.size());
  for (;;) {
    if (cancelled(request)) return false;
    const int position = static_cast<int>(timeline_->tokens.size());
    int end = std::min(position + engine_.model.buffers.max_rows(), total);
    if (position < request.checkpoint_at && request.checkpoint_at < end) end = request.checkpoint_at;
    const auto tokens = prompt.subspan(static_cast<std::size_t>(position), static_cast<std::size_t>(end - position));
    const auto computed = end < total ? compute(request, tokens)
                                      : passes_->begin({tokens, position, timeline_->live, request.cancel});
    if (!computed && computed.error().code == ErrorCode::kCancelled) return false;
    LILY_RETURN_IF_ERROR(computed);
    if (end == total) return true;
    if (request.on_prefill) request.on_prefill(end, total);
  }
}

Result<GenerateResult> Session::generate(const GenerateRequest& request) {
  LILY_RETURN_IF_ERROR(check_request(engine_, request));
  settle();
  auto answer = answer_from_state(request);
  // A failed pass leaves state and timeline out of step with each other.
  if (!answer) clear();
  return answer;
}

Result<GenerateResult> Session::answer_from_state(const GenerateRequest& request) {
  Generation generation(engine_, request);
  GenerateResult& result = generation.result();
  result.prompt_tokens = static_cast<int>(request.prompt.size());
  LILY_TRY(result.cached_tokens, resume(request.prompt));
  // For the whole answer: running out of pages halfway would lose the work, and the table is not written while a pass is under way.
  engine_.model.state.truncate(0, result.cached_tokens);
  LILY_RETURN_IF_ERROR(engine_.model.state.reserve(*engine_.backend, 0, result.prompt_tokens + generation.limit()));
  engine_.sampling.begin(*engine_.backend, request.sampling, request.prompt);
  DecodeWay way = engine_.decode_way;
  if (request.lockstep) way.in_flight = 1;
  passes_ = std::make_unique<AnswerPasses>(*engine_.backend, engine_.model, engine_.sampling, way);
  LILY_TRY(const bool begun, prefill(request));
  if (!begun) {
    generation.finish(FinishReason::kCancelled);
    return result;
  }
  const std::uint64_t barriers_before = engine_.backend->barriers(), launches_before = engine_.backend->launches();
  LILY_RETURN_IF_ERROR(decode(request, generation));
  result.decode_passes = passes_->n_begun() - 1;
  result.decode_barriers = engine_.backend->barriers() - barriers_before;
  result.decode_launches = engine_.backend->launches() - launches_before;
  return result;
}

// Token after token. With two passes in flight the next one is enqueued before the token of the last is looked at, but none behind
// the last token that the request allows.
Result<void> Session::decode(const GenerateRequest& request, Generation& generation) {
  const GenerateResult& result = generation.result();
  for (bool going = true; going;) {
    while (passes_->can_follow() && passes_->n_begun() < generation.limit()) LILY_RETURN_IF_ERROR(passes_->follow());
    LILY_TRY(const auto taken, passes_->take());
    if (result.tokens.empty()) {
      LILY_RETURN_IF_ERROR(extend(request, std::span(request.prompt).subspan(timeline_->tokens.size()), taken.state));
      generation.first_token_is_there();
      if (request.on_prefill) request.on_prefill(result.prompt_tokens, result.prompt_tokens);
    } else {
      timeline_->append(std::span(&result.tokens.back(), 1), taken.state);
    }
    LILY_TRY(going, generation.take(taken.chosen));
    if (going && cancelled(request)) going = generation.finish(FinishReason::kCancelled);
  }
  return {};
}

}  // namespace lily
