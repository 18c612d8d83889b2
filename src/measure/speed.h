// One measurement of prefill or of decode: random tokens in, greedy tokens out, from an empty state and never ended by the model.
#pragma once

#include <atomic>

#include "base/result.h"
#include "engine/engine.h"

namespace lily {

struct DecodeSpeed {
  double tokens_per_second = 0;
  double barriers = 0, launches = 0;  // A token.
};

class SpeedMeter {
 public:
  // Uses the engine's session; `cancel` ends a measurement with kCancelled.
  SpeedMeter(Engine& engine, const std::atomic<bool>* cancel) : engine_(engine), cancel_(cancel) {}

  // Tokens a second of a prompt of n_tokens, to its first chosen token. kTooLarge where the context is shorter.
  Result<double> prefill(int n_tokens);
  // Tokens a second of n_tokens after the first, behind a prompt of `depth`.
  Result<DecodeSpeed> decode(int depth, int n_tokens);

 private:
  Result<GenerateResult> generate(int prompt_tokens, int tokens);

  Engine& engine_;
  const std::atomic<bool>* cancel_;
};

}  // namespace lily
