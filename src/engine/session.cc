// One timeline: how much of a prompt is already there, the rest in chunks, then token after token.
#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/check.h"
#include "engine/impl.h"
#include "engine/stop_strings.h"
#include "text/stream_decoder.h"

namespace lily {
namespace {

constexpr std::size_t kMaxStops = 16;
constexpr std::size_t kMaxStopBytes = 1024;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool cancelled(const GenerateRequest& request) {
  return request.cancel && request.cancel->load(std::memory_order_relaxed);
}

}  // namespace

// The tokens that KV cache and live state stand for, and the states kept beside the live one.
struct Session::Timeline {
  struct Checkpoint {
    int position;
    int slot;
  };
  std::vector<TokenId> tokens;
  std::vector<Checkpoint> checkpoints;  // The least recently used first.
  std::vector<int> free_slots;

  int common_prefix(std::span<const TokenId> prompt) const {
    const auto [mine, theirs] = std::mismatch(tokens.begin(), tokens.end(), prompt.begin(), prompt.end());
    return static_cast<int>(mine - tokens.begin());
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

// One pass of a session.
struct Session::Step {
  std::span<const TokenId> tokens;
  int position;
  bool choose;                                // The token after the last one.
  const std::atomic<bool>* cancel = nullptr;
};

namespace {

// What one call of generate() carries from step to step.
class Generation {
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
  GenerateResult result_;
};

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
  *timeline_ = {};
  for (int slot = engine_.model.state.limits().n_slots; --slot > kLiveSlot;) timeline_->free_slots.push_back(slot);
  engine_.model.state.truncate(0, 0);
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
    LILY_RETURN_IF_ERROR(engine_.model.state.copy_slot(*engine_.backend, deepest->slot, kLiveSlot));
    std::rotate(deepest, deepest + 1, timeline.checkpoints.end());
  }
  timeline.tokens.resize(static_cast<std::size_t>(position));
  engine_.model.state.truncate(0, position);
  return position;
}

Result<void> Session::keep_checkpoint(int position) {
  for (const auto& kept : timeline_->checkpoints) {
    if (kept.position == position) return {};
  }
  const int slot = timeline_->take_slot();
  if (slot < 0) return {};
  LILY_RETURN_IF_ERROR(engine_.model.state.copy_slot(*engine_.backend, kLiveSlot, slot));
  timeline_->checkpoints.push_back({position, slot});
  return {};
}

// Computes the rest of the prompt; the last pass chooses the first token. False: cancelled.
Result<bool> Session::prefill(const GenerateRequest& request) {
  const std::span<const TokenId> prompt = request.prompt;
  const int total = static_cast<int>(prompt.size());
  for (int position = static_cast<int>(timeline_->tokens.size()); position < total;) {
    if (cancelled(request)) return false;
    int end = std::min(position + engine_.model.buffers.max_rows(), total);
    if (position < request.checkpoint_at && request.checkpoint_at < end) end = request.checkpoint_at;
    const auto tokens = prompt.subspan(static_cast<std::size_t>(position), static_cast<std::size_t>(end - position));
    const auto computed = run({.tokens = tokens, .position = position, .choose = end == total, .cancel = request.cancel});
    if (!computed && computed.error().code == ErrorCode::kCancelled) {
      LILY_RETURN_IF_ERROR(rewind(position));
      return false;
    }
    LILY_RETURN_IF_ERROR(computed);
    position = end;
    if (position == request.checkpoint_at) LILY_RETURN_IF_ERROR(keep_checkpoint(position));
    if (request.on_prefill) request.on_prefill(position, total);
  }
  return true;
}

// A pass after which the timeline ends with its tokens.
Result<void> Session::run(const Step& step) {
  const std::int32_t last_row = static_cast<std::int32_t>(step.tokens.size()) - 1;
  engine_.model.buffers.write_sampling(*engine_.backend, 0, engine_.sampling.address());
  LILY_RETURN_IF_ERROR(run_pass(*engine_.backend, engine_.model,
                                {.tokens = step.tokens, .position = step.position,
                                 .head = {.kind = step.choose ? HeadUse::Kind::kChoose : HeadUse::Kind::kNone},
                                 .head_rows = std::span(&last_row, step.choose ? 1 : 0), .cancel = step.cancel}));
  timeline_->tokens.insert(timeline_->tokens.end(), step.tokens.begin(), step.tokens.end());
  return {};
}

Result<GenerateResult> Session::generate(const GenerateRequest& request) {
  LILY_RETURN_IF_ERROR(check_request(engine_, request));
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
  engine_.sampling.begin(*engine_.backend, request.sampling, request.prompt);
  const auto prefill_start = Clock::now();
  LILY_TRY(bool going, prefill(request));
  result.prefill_seconds = seconds_since(prefill_start);
  if (!going) generation.finish(FinishReason::kCancelled);
  const auto decode_start = Clock::now();
  const std::uint64_t barriers_before = engine_.backend->barriers(), launches_before = engine_.backend->launches();
  while (going) {
    LILY_TRY(const ChosenToken chosen, engine_.model.buffers.read_chosen(*engine_.backend, 0));
    LILY_TRY(going, generation.take(chosen));
    if (going && cancelled(request)) going = generation.finish(FinishReason::kCancelled);
    if (!going) break;
    engine_.sampling.set_draw(*engine_.backend, result.tokens.size());
    LILY_RETURN_IF_ERROR(run({.tokens = std::span(&result.tokens.back(), 1),
                              .position = static_cast<int>(timeline_->tokens.size()), .choose = true}));
  }
  result.decode_seconds = seconds_since(decode_start);
  result.decode_barriers = engine_.backend->barriers() - barriers_before;
  result.decode_launches = engine_.backend->launches() - launches_before;
  return result;
}

}  // namespace lily
