// What a request may ask for, and what becomes of each token that was chosen for it.
#include "engine/answer.h"

#include <algorithm>

namespace lily {
namespace {

constexpr std::size_t kMaxStops = 16;
constexpr std::size_t kMaxStopBytes = 1024;

Result<void> check_prompt(const Engine::Impl& engine, std::span<const TokenId> prompt) {
  if (prompt.empty()) return Error{ErrorCode::kInvalidArgument, "the prompt is empty: at least one token is needed"};
  if (prompt.size() >= static_cast<std::size_t>(engine.context_tokens())) {
    return Error{ErrorCode::kTooLarge, "the prompt has " + std::to_string(prompt.size()) + " tokens, the context holds " +
                                           std::to_string(engine.context_tokens()) + " and one is needed for the answer"};
  }
  for (const TokenId id : prompt) {
    if (id < 0 || id >= engine.model.vocab_used) {
      return Error{ErrorCode::kInvalidArgument,
                   "prompt: token " + std::to_string(id) + ", expected 0 .. " + std::to_string(engine.model.vocab_used - 1)};
    }
  }
  return {};
}

Result<void> check_stops(std::span<const std::string> stops) {
  if (stops.size() > kMaxStops) {
    return Error{ErrorCode::kInvalidArgument, "stop: " + std::to_string(stops.size()) + " strings, at most 16"};
  }
  for (const auto& stop : stops) {
    if (stop.empty() || stop.size() > kMaxStopBytes) {
      return Error{ErrorCode::kInvalidArgument, "stop: a string of " + std::to_string(stop.size()) + " bytes, expected 1 .. " +
                                                    std::to_string(kMaxStopBytes)};
    }
  }
  return {};
}

}  // namespace

Result<void> check_request(const Engine::Impl& engine, const GenerateRequest& request) {
  LILY_RETURN_IF_ERROR(check_prompt(engine, request.prompt));
  LILY_RETURN_IF_ERROR(check_stops(request.stop));
  if (request.max_tokens < 0) {
    return Error{ErrorCode::kInvalidArgument, "max_tokens: " + std::to_string(request.max_tokens) + ", expected 1 or more, or 0 for no limit"};
  }
  if (request.prompt_top < 0 || request.prompt_top > std::min(kMaxTopLogProbs, engine.model.vocab_used)) {
    return Error{ErrorCode::kInvalidArgument, "prompt_top: " + std::to_string(request.prompt_top) + ", expected 0 .. " +
                                                  std::to_string(std::min(kMaxTopLogProbs, engine.model.vocab_used))};
  }
  return check_sampling(request.sampling, engine.model.vocab_used);
}

Answer::Answer(const Engine::Impl& engine, const GenerateRequest& request)
    : engine_(engine),
      request_(request),
      decoder_(*engine.tokenizer, {.skip_special = true}),
      stops_(request.stop),
      limit_(engine.context_tokens() - static_cast<int>(request.prompt.size())) {
  if (request.max_tokens > 0) limit_ = std::min(limit_, request.max_tokens);
  result_.prompt_tokens = static_cast<int>(request.prompt.size());
}

void Answer::first_token_is_there() {
  const auto now = Clock::now();
  result_.prefill_seconds = std::chrono::duration<double>(now - started_).count();
  decode_started_ = now;
}

Result<bool> Answer::take(const ChosenToken& chosen) {
  if (chosen.not_finite) return Error{ErrorCode::kNotFinite, "the model computed a logit that is not finite"};
  if (chosen.token < 0) return Error{ErrorCode::kInvalidArgument, "logit_bias or the grammar of the answer: no token is left to choose"};
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

bool Answer::finish(FinishReason reason) {
  result_.finish = reason;
  const auto since = decode_started_.value_or(started_);
  (decode_started_ ? result_.decode_seconds : result_.prefill_seconds) =
      std::chrono::duration<double>(Clock::now() - since).count();
  if (stops_.matched()) {
    result_.stop_string = *stops_.matched();
  } else {
    const std::string rest = stops_.push(decoder_.finish()) + stops_.finish();
    result_.text += rest;
    if (!rest.empty() && request_.on_token) request_.on_token({-1, rest, 0.0f, {}, {}});
  }
  return false;
}

void Answer::emit(const std::string& text, const ChosenToken& chosen) {
  result_.text += text;
  if (!request_.on_token) return;
  const auto n_top = static_cast<std::size_t>(chosen.n_top);
  request_.on_token({chosen.token, text, chosen.log_prob, std::span(chosen.top_ids, n_top),
                     std::span(chosen.top_log_probs, n_top)});
}

}  // namespace lily
