// Presets, defaults and bounds of the sampling fields.
#include "engine/sampling.h"

#include <cmath>
#include <string>

#include "spec/sampling_bounds.h"

namespace lily {
namespace {

Error out_of_range(std::string_view field, double value, std::string_view range) {
  return {ErrorCode::kInvalidArgument,
          std::string(field) + ": " + std::to_string(value) + ", expected " + std::string(range)};
}

struct Bound {
  std::string_view field;
  double value;
  SamplingBound bound;
  std::string_view range;
};

}  // namespace

// Source: the model card of Qwen3.6-35B-A3B, section on sampling.
SamplingParams preset(SamplingPreset which) {
  SamplingParams params;
  switch (which) {
    case SamplingPreset::kThinking:
      params = {.temperature = 1.0f, .top_p = 0.95f, .top_k = 20, .presence_penalty = 1.5f};
      break;
    case SamplingPreset::kThinkingPrecise:
      params = {.temperature = 0.6f, .top_p = 0.95f, .top_k = 20};
      break;
    case SamplingPreset::kInstruct:
      params = {.temperature = 0.7f, .top_p = 0.80f, .top_k = 20, .presence_penalty = 1.5f};
      break;
  }
  return params;
}

SamplingParams with_defaults(SamplingParams base, const GenerationDefaults& defaults) {
  if (defaults.temperature) base.temperature = static_cast<float>(*defaults.temperature);
  if (defaults.top_p) base.top_p = static_cast<float>(*defaults.top_p);
  if (defaults.top_k) base.top_k = *defaults.top_k;
  if (defaults.min_p) base.min_p = static_cast<float>(*defaults.min_p);
  if (defaults.repetition_penalty) base.repetition_penalty = static_cast<float>(*defaults.repetition_penalty);
  if (defaults.do_sample && !*defaults.do_sample) base.temperature = 0.0f;
  return base;
}

Result<void> check_sampling(const SamplingParams& p, int vocab_used) {
  const Bound bounds[] = {
      {"temperature", p.temperature, kTemperatureBound, "0 .. 100"},
      {"top_p", p.top_p, kTopPBound, "over 0, at most 1"},
      {"min_p", p.min_p, kMinPBound, "0 .. 1"},
      {"top_k", static_cast<double>(p.top_k), kTopKBound, "0 or more"},
      {"repetition_penalty", p.repetition_penalty, kRepetitionPenaltyBound, "0.001 .. 10"},
      {"presence_penalty", p.presence_penalty, kOtherPenaltyBound, "-2 .. 2"},
      {"frequency_penalty", p.frequency_penalty, kOtherPenaltyBound, "-2 .. 2"},
      {"top_logprobs", static_cast<double>(p.n_top), {0, kMaxTopLogProbs}, "0 .. 20"},
      {"logit_bias", static_cast<double>(p.logit_bias.size()), {0, kMaxLogitBias}, "at most 1024 entries"},
  };
  for (const Bound& b : bounds) {
    // Written so that NaN fails.
    if (!(b.value >= b.bound.low && b.value <= b.bound.high)) return out_of_range(b.field, b.value, b.range);
  }
  for (const auto& [id, bias] : p.logit_bias) {
    if (id < 0 || id >= vocab_used) return out_of_range("logit_bias: token", id, "an id of the vocabulary");
    if (!(std::fabs(bias) <= 100)) return out_of_range("logit_bias: value", bias, "-100 .. 100");
  }
  return {};
}

}  // namespace lily
