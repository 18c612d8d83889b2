// One answer from its first token to its end, on the host's side: text, stop strings, the budget, what is told and counted.
#pragma once

#include <chrono>
#include <optional>

#include "engine/impl.h"
#include "engine/stop_strings.h"
#include "text/stream_decoder.h"

namespace lily {

// Errors name the field, what was found and what was expected.
Result<void> check_request(const Engine::Impl& engine, const GenerateRequest& request);

class Answer {
 public:
  // The request stays where it is as long as the answer.
  Answer(const Engine::Impl& engine, const GenerateRequest& request);

  GenerateResult& result() { return result_; }
  const GenerateResult& result() const { return result_; }
  int limit() const { return limit_; }  // Tokens at most.

  void first_token_is_there();
  // Takes the token that the last pass chose. True: the answer goes on.
  Result<bool> take(const ChosenToken& chosen);
  bool finish(FinishReason reason);  // False.

 private:
  using Clock = std::chrono::steady_clock;
  void emit(const std::string& text, const ChosenToken& chosen);

  const Engine::Impl& engine_;
  const GenerateRequest& request_;
  StreamDecoder decoder_;
  StopStrings stops_;
  int limit_;
  Clock::time_point started_ = Clock::now();
  std::optional<Clock::time_point> decode_started_;
  GenerateResult result_;
};

}  // namespace lily
