// Sampling fields: presets, the checkpoint's defaults, and bounds that name the field.
#include "engine/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace lily {
namespace {

using ::testing::HasSubstr;

TEST(Sampling, PresetsAreTheModelCards) {
  const auto thinking = preset(SamplingPreset::kThinking);
  EXPECT_FLOAT_EQ(thinking.temperature, 1.0f);
  EXPECT_FLOAT_EQ(thinking.top_p, 0.95f);
  EXPECT_EQ(thinking.top_k, 20);
  EXPECT_FLOAT_EQ(thinking.presence_penalty, 1.5f);
  EXPECT_FLOAT_EQ(preset(SamplingPreset::kThinkingPrecise).temperature, 0.6f);
  EXPECT_FLOAT_EQ(preset(SamplingPreset::kInstruct).top_p, 0.80f);
}

TEST(Sampling, TheCheckpointsDefaultsFillWhatItStates) {
  GenerationDefaults defaults;
  defaults.top_k = 7;
  const auto params = with_defaults(preset(SamplingPreset::kInstruct), defaults);
  EXPECT_EQ(params.top_k, 7);
  EXPECT_FLOAT_EQ(params.top_p, 0.80f);
  defaults.do_sample = false;
  EXPECT_FLOAT_EQ(with_defaults({}, defaults).temperature, 0.0f);
}

TEST(Sampling, EachBoundNamesItsField) {
  const std::pair<const char*, std::function<void(SamplingParams&)>> rows[] = {
      {"temperature", [](auto& p) { p.temperature = -1; }},
      {"temperature", [](auto& p) { p.temperature = std::nanf(""); }},
      {"top_p", [](auto& p) { p.top_p = 0; }},
      {"top_p", [](auto& p) { p.top_p = 1.01f; }},
      {"min_p", [](auto& p) { p.min_p = 2; }},
      {"top_k", [](auto& p) { p.top_k = -1; }},
      {"repetition_penalty", [](auto& p) { p.repetition_penalty = 0; }},
      {"presence_penalty", [](auto& p) { p.presence_penalty = 3; }},
      {"frequency_penalty", [](auto& p) { p.frequency_penalty = -3; }},
      {"top_logprobs", [](auto& p) { p.n_top = 21; }},
      {"logit_bias: token", [](auto& p) { p.logit_bias = {{100, 1.0f}}; }},
      {"logit_bias: value", [](auto& p) { p.logit_bias = {{1, 101.0f}}; }},
      {"logit_bias", [](auto& p) { p.logit_bias.assign(1025, {1, 1.0f}); }},
  };
  ASSERT_TRUE(check_sampling({}, 100).has_value());
  for (const auto& [field, spoil] : rows) {
    SamplingParams params;
    spoil(params);
    const auto checked = check_sampling(params, 100);
    ASSERT_FALSE(checked.has_value()) << field;
    EXPECT_THAT(checked.error().message, HasSubstr(field));
  }
}

}  // namespace
}  // namespace lily
