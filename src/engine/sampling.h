// How the next token is drawn, as a user says it. The order of operations is in docs/SAMPLING.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "spec/model_spec.h"
#include "backend/args.h"
#include "weights/config.h"

namespace lily {

inline constexpr std::size_t kMaxLogitBias = 1024;

struct SamplingParams {
  float temperature = 1.0f;         // 0: greedy. 0 .. 100
  float top_p = 1.0f;               // (0, 1]; 1: off
  float min_p = 0.0f;               // [0, 1]; 0: off
  int top_k = 0;                    // 0: off
  float repetition_penalty = 1.0f;  // (0, 10]; prompt and answer
  float presence_penalty = 0.0f;    // [-2, 2]; answer only
  float frequency_penalty = 0.0f;   // [-2, 2]; answer only
  std::uint64_t seed = 0;
  std::vector<std::pair<TokenId, float>> logit_bias = {};  // -100 .. 100 each, at most 1,024
  int n_top = 0;                    // Alternatives reported with each token, 0 .. 20
};

enum class SamplingPreset { kThinking, kThinkingPrecise, kInstruct };

// The model card's recommendations for the family (docs/SAMPLING.md gives the source).
SamplingParams preset(SamplingPreset which);
// What generation_config.json asks for; what it leaves open comes from `base`.
SamplingParams with_defaults(SamplingParams base, const GenerationDefaults& defaults);
// kInvalidArgument names the field, its value and the range.
Result<void> check_sampling(const SamplingParams& params, int vocab_used);

}  // namespace lily
