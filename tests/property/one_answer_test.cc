// One answer: on the CPU backend the tokens and their log-probabilities, bit for bit, do not depend on chunk size, thread count,
// a warm or cold start, or on how the weights came into memory.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include "backend/cpu/kernels.h"
#include "tests/engine/pocket.h"

namespace lily {
namespace {

struct Answer {
  std::vector<TokenId> tokens;
  std::vector<float> log_probs;
  bool operator==(const Answer&) const = default;
};

Answer answer(Engine& engine, const ChatPrompt& prompt) {
  Answer out;
  const auto result = engine.session().generate({.prompt = prompt.tokens,
                                                 .sampling = greedy(),
                                                 .max_tokens = 32,
                                                 .stop = {},
                                                 .borders = prompt.borders,
                                                 .cancel = nullptr,
                                                 .on_token = [&](const TokenEvent& event) {
                                                   if (event.token >= 0) out.log_probs.push_back(event.log_prob);
                                                 }});
  EXPECT_TRUE(result.has_value()) << result.error().message;
  out.tokens = result->tokens;
  return out;
}

// About 300 tokens, so that every chunk size splits it somewhere, KV pages and windows included.
std::string long_question() {
  std::string text = "Remember this: the secret word of Zoe is leaf-254. ";
  for (int i = 0; i < 24; ++i) text += "The fox went to the river and saw a bear near the old bridge. ";
  return text + "What is the secret word of Zoe?";
}

class OneAnswer : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  static const Answer& expected() {
    static const Answer answer_of_default = [] {
      const auto engine = open_or_fail(pocket_options());
      return answer(*engine, ask(*engine, long_question()));
    }();
    return answer_of_default;
  }
};

TEST_P(OneAnswer, DoesNotDependOnChunkOrThreads) {
  auto options = pocket_options();
  options.chunk_tokens = std::get<0>(GetParam());
  options.backend_options.threads = std::get<1>(GetParam());
  const auto engine = open_or_fail(options);
  const auto cold = answer(*engine, ask(*engine, long_question()));
  ASSERT_FALSE(cold.tokens.empty());
  EXPECT_EQ(cold, expected());
}

INSTANTIATE_TEST_SUITE_P(Sizes, OneAnswer,
                         ::testing::Combine(::testing::Values(1, 2, 3, 63, 64, 65, 2048), ::testing::Values(1, 2, 3)));

TEST_F(OneAnswer, DoesNotDependOnBeingWarm) {
  auto options = pocket_options();
  options.n_checkpoints = 2;
  const auto engine = open_or_fail(options);
  const auto prompt = ask(*engine, long_question());
  EXPECT_EQ(answer(*engine, prompt), expected());
  EXPECT_EQ(answer(*engine, prompt), expected());
  answer(*engine, ask(*engine, "What is 3 + 4?"));
  EXPECT_EQ(answer(*engine, prompt), expected());
}

TEST_F(OneAnswer, DoesNotDependOnPacking) {
  const Path copy = Path(::testing::TempDir()) / ("lily_packed." + std::to_string(::getpid()));
  std::filesystem::remove_all(copy);
  std::filesystem::copy(pocket_folder(), copy, std::filesystem::copy_options::recursive);
  auto options = pocket_options();
  options.model = copy;
  options.pack = true;
  for (int start = 0; start < 2; ++start) {  // The first packs, the second maps what it finds.
    const auto engine = open_or_fail(options);
    EXPECT_EQ(answer(*engine, ask(*engine, long_question())), expected()) << start;
  }
  std::filesystem::remove_all(copy);
}

TEST_F(OneAnswer, DoesNotDependOnTheInstructionSet) {
  for (const auto* kernels : cpu::supported_kernels()) {
    auto options = pocket_options();
    options.backend_options.isa = kernels->name;
    const auto engine = open_or_fail(options);
    EXPECT_EQ(answer(*engine, ask(*engine, long_question())), expected()) << kernels->name;
  }
}

RC_GTEST_PROP(OneAnswerProperty, AnyPromptInAnyChunksGivesTheSameScores, ()) {
  const auto ids = *rc::gen::container<std::vector<TokenId>>(
      *rc::gen::inRange<std::size_t>(2, 150), rc::gen::inRange<TokenId>(0, 4096));
  auto whole = pocket_options(), cut = pocket_options();
  cut.chunk_tokens = *rc::gen::inRange(1, 80);
  cut.backend_options.threads = *rc::gen::inRange(1, 4);
  const auto a = open_or_fail(whole)->score({.ids = ids, .first = 0, .n_top = 2});
  const auto b = open_or_fail(cut)->score({.ids = ids, .first = 0, .n_top = 2});
  RC_ASSERT(a.has_value() && b.has_value());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    RC_ASSERT((*a)[i].next_log_prob == (*b)[i].next_log_prob);
    RC_ASSERT((*a)[i].top_log_probs == (*b)[i].top_log_probs);
  }
}

}  // namespace
}  // namespace lily
