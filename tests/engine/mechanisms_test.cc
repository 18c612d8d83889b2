// Mechanisms of the GPU's passes, each switched from its default, and prompts cut into chunks: the
// same greedy answers on the emulator.
#include <gtest/gtest.h>

#include <cmath>
#include "tests/engine/pocket.h"

namespace lily {
namespace {

constexpr int kChunk = 16;
struct Question {
  const char* text;
  int n_answered;  // Tokens at most.
};
const Question kQuestions[] = {{"What is the capital of France?", 2},
                               {"Repeat after me: fox bear lamp river stone cloud path", 4}};

using Answers = std::vector<std::vector<TokenId>>;

Answers answers(Engine& engine) {
  Answers out;
  for (const auto& [question, n_answered] : kQuestions) {
    const auto prompt = ask(engine, question);
    EXPECT_GT(prompt.tokens.size(), std::size_t{kChunk});
    engine.session().clear();
    const auto result = engine.session().generate(
        {.prompt = prompt.tokens, .sampling = greedy(), .max_tokens = n_answered});
    EXPECT_TRUE(result.has_value()) << result.error().message;
    out.push_back(result->tokens);
  }
  return out;
}

EngineOptions emulator_options(int chunk) {
  EngineOptions options = pocket_options("emulator");
  options.chunk_tokens = chunk;
  options.context_tokens = 256;
  return options;
}

const Answers& expected() {
  static const Answers kExpected = answers(*open_or_fail(emulator_options(kChunk)));
  return kExpected;
}

TEST(EmulatorMechanisms, EachSwitchedGivesTheSameGreedyTokens) {
  for (const auto& [name, field] : kMechanismFields) {
    EngineOptions options = emulator_options(kChunk);
    options.backend_options.mechanisms.emplace().*field = !(Mechanisms{}.*field);
    EXPECT_EQ(answers(*open_or_fail(options)), expected()) << name;
  }
}

// As an ablation does: in one engine, forth and back.
TEST(EmulatorMechanisms, AreSwitchedInAnOpenEngine) {
  const auto engine = open_or_fail(emulator_options(kChunk));
  for (const Mechanisms& mechanisms :
       {Mechanisms{.dequantise_in_tile = false, .route_on_device = false},
        Mechanisms{.token_on_device = false, .fused_experts_up = false}, Mechanisms{}}) {
    const auto switched = engine->set_mechanisms(mechanisms);
    ASSERT_TRUE(switched.has_value()) << switched.error().message;
    EXPECT_EQ(answers(*engine), expected());
  }
}

TEST(EmulatorMechanisms, AreRefusedWhereThereAreNone) {
  const auto engine = open_or_fail(pocket_options("cpu"));
  EXPECT_EQ(engine->set_mechanisms({}).error().code, ErrorCode::kUnsupported);
}

TEST(EmulatorMechanisms, AllOfPrefillAtOnceGiveTheSameGreedyTokens) {
  EngineOptions options = emulator_options(kChunk);
  options.backend_options.mechanisms = Mechanisms{.dequantise_in_tile = false,
                                                  .route_on_device = false,
                                                  .adaptive_tiles = false,
                                                  .large_tiles = true,
                                                  .matrix_units = false,
                                                  .register_state = false};
  EXPECT_EQ(answers(*open_or_fail(options)), expected());
}

// Chunks of up to 8 rows go through the kernels of decode, longer ones through tiles, the last is
// the whole prompt at once.
TEST(EmulatorChunks, AnySizeGivesTheSameGreedyTokens) {
  for (const int chunk : {7, 2048}) {
    EXPECT_EQ(answers(*open_or_fail(emulator_options(chunk))), expected()) << chunk;
  }
}

// Tiles of bf16 operands against the fp32 products of decode. Both are within a mean KL divergence
// of 2e-4 of the oracle (docs/NUMERICS.md), so within sqrt(2e-4 / 2) of it in mean total variation
// (Pinsker, Jensen), and within twice that of each other.
TEST(EmulatorChunks, PrefillAgreesWithDecode) {
  const auto at_once = open_or_fail(emulator_options(2048)),
             in_few = open_or_fail(emulator_options(8));
  const auto ids = ask(*at_once, kQuestions[1].text).tokens;
  const ScoreRequest request{.ids = ids, .first = 0, .n_top = 1};
  const auto tiles = at_once->score(request), rows = in_few->score(request);
  ASSERT_TRUE(tiles.has_value() && rows.has_value());
  double difference = 0;
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    const double a = std::exp((*tiles)[i].next_log_prob), b = std::exp((*rows)[i].next_log_prob);
    difference += std::abs(a - b) / static_cast<double>(ids.size() - 1);
  }
  EXPECT_LE(difference, 0.02);
  EXPECT_GT(difference, 0.0) << "one way of it only";
}

}  // namespace
}  // namespace lily
