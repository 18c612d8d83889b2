// What later prompts find of earlier ones: the deepest kept state, the same bytes as computed anew, and a reason where it is less.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/checkpoints.h"
#include "tests/engine/served.h"

namespace lily {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

constexpr std::size_t kMegabyte = std::size_t{1} << 20;
// A state of the pocket with the pages of a short chat, rounded up.
constexpr std::size_t kShortStateBytes = 5 * kMegabyte;

// About 14 tokens a sentence.
std::string story(const std::string& who, int n_sentences) {
  std::string text = "Remember this: the secret word of " + who + " is leaf-254. ";
  for (int i = 0; i < n_sentences; ++i) text += "The fox went to the river and saw " + who + " near the old bridge. ";
  return text + "What is the secret word of " + who + "?";
}

// Turns of one conversation, each with the answers before it.
class Turns {
 public:
  explicit Turns(Served& served, bool thinking = false) : served_(served) {
    conversation_.options.enable_thinking = thinking;
  }
  Conversation& conversation() { return conversation_; }
  GenerateResult say(const std::string& text, int max_tokens = 64) {
    conversation_.messages.push_back(said(Role::kUser, text));
    const auto result = served_.answer(request_of(prompt(), max_tokens));
    EXPECT_TRUE(result.has_value()) << result.error().message;
    return *result;
  }
  void hear(const GenerateResult& result) { conversation_.messages.push_back(said(Role::kAssistant, result.text)); }
  ChatPrompt prompt() const { return *encode_chat(served_.engine->tokenizer(), conversation_); }

 private:
  Served& served_;
  Conversation conversation_;
};

// The answer of an engine that has seen nothing else.
std::vector<TokenId> cold(const ChatPrompt& prompt) {
  Served fresh;
  return fresh.answer(request_of(prompt))->tokens;
}

// R001, R015
void three_turns(EngineOptions options, int max_tokens) {
  Served served(options);
  Turns turns(served);
  GenerateResult before;
  for (const char* question : {"What is the capital of France?", "What colour is snow?", "What is 17 + 25?"}) {
    const auto result = turns.say(question, max_tokens);
    EXPECT_GE(result.cached_tokens, before.prompt_tokens - 8) << question;
    EXPECT_EQ(result.reuse.reused, result.cached_tokens);
    before = result;
    turns.hear(result);
  }
  if (max_tokens >= 64) {
    EXPECT_EQ(before.text, "17 + 25 = 42");
  }
  const auto stats = served.scheduler->stats();
  EXPECT_EQ(stats.prefix_hits, 2u);
  EXPECT_EQ(stats.finished, 3u);
}
TEST(Reuse, ATurnComputesWhatFollowsTheLastOne) { three_turns(served_options(2), 64); }
TEST(Reuse, SoItDoesOnTheEmulatorAndTheReference) {
  for (const char* backend : {"emulator", "reference"}) {
    auto options = served_options(1);
    options.backend = backend;
    three_turns(options, 2);
  }
}

TEST(Reuse, SoItDoesOnACard) {
  if (const auto card = open_backend("cuda", {}); !card) GTEST_SKIP() << "no CUDA here: " << card.error().message;
  auto options = served_options(2);
  options.backend = "cuda";
  three_turns(options, 64);
}

// R001: with all reasoning kept in the history nothing is read again but what chose the end.
TEST(Reuse, AnAnswerThatIsSentBackAsItWasIsNotReadAgain) {
  Served served;
  Turns turns(served);
  turns.conversation().options.preserve_thinking = true;
  const auto first = turns.say("What is the capital of France?");
  auto answered = said(Role::kAssistant, first.text);
  answered.reasoning = "";
  turns.conversation().messages.push_back(answered);
  const auto second = turns.say("What colour is snow?");
  EXPECT_GE(second.cached_tokens, first.prompt_tokens + static_cast<int>(first.tokens.size()) - 4);
}

// R003, R005
TEST(Reuse, TheSamePromptAgainReadsItsEndOnly) {
  Served served;
  const auto prompt = ask(*served.engine, story("Zoe", 30));
  const auto first = *served.answer(request_of(prompt));
  const auto before = served.scheduler->stats();
  const auto second = *served.answer(request_of(prompt));
  const auto after = served.scheduler->stats();
  EXPECT_EQ(first.cached_tokens, 0);
  EXPECT_EQ(first.reuse.limit, ReuseLimit::kNothingStored);
  EXPECT_THAT(second.cached_tokens, AllOf(Ge(second.prompt_tokens - 16), Le(second.prompt_tokens - 1)));
  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_EQ(after.prefix_hits - before.prefix_hits, 1u);
  EXPECT_EQ(after.reused_tokens - before.reused_tokens, static_cast<std::uint64_t>(second.cached_tokens));
  EXPECT_EQ(after.prompt_tokens - before.prompt_tokens, static_cast<std::uint64_t>(second.prompt_tokens - second.cached_tokens));
}

// R009
TEST(Reuse, AShorterPromptBeginsAtAnEarlierStateOrAnew) {
  Served served;
  const auto whole = ask(*served.engine, story("Zoe", 40));
  const auto expected = served.answer(request_of(whole))->tokens;
  auto shorter = ask(*served.engine, story("Zoe", 30));
  EXPECT_EQ(served.answer(request_of(shorter))->tokens, cold(shorter));
  const auto hi = ask(*served.engine, "Hi");
  EXPECT_EQ(served.answer(request_of(hi))->tokens, cold(hi));
  EXPECT_EQ(served.answer(request_of(whole))->tokens, expected);
}

// R011
TEST(Reuse, AFullBudgetMakesRoomForWhatComes) {
  Served served(served_options(2, 4 * kShortStateBytes));
  const char* const names[] = {"Ada", "Ben", "Cora", "Dan", "Ela", "Finn", "Gus", "Hana", "Ivan", "Juno", "Kai", "Lena"};
  std::uint64_t evictions = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (const char* name : names) {
      for (int time = 0; time < 2; ++time) {
        auto request = request_of(ask(*served.engine, std::string(name) + " likes rain."), 4);
        request.prompt[2] = 300 + name[0];  // No beginning in common.
        const auto result = served.answer(request);
        ASSERT_TRUE(result.has_value()) << result.error().message;
        EXPECT_EQ(result->cached_tokens > 0, time == 1) << name;
        EXPECT_LE(served.scheduler->stats().checkpoint_bytes, 4 * kShortStateBytes);
      }
    }
    EXPECT_GT(served.scheduler->stats().evictions, evictions);
    evictions = served.scheduler->stats().evictions;
  }
}

// R013
TEST(Reuse, AMissNamesTheTokenWhereThePromptLeftTheBestOne) {
  Served served;
  const auto chat = [&](const std::string& word) {
    return ask(*served.engine, {said(Role::kSystem, "You are a " + word + " assistant."), said(Role::kUser, story("Zoe", 20))});
  };
  const auto helpful = chat("helpful"), useful = chat("useful");
  const int first_other = common_prefix(helpful.tokens, useful.tokens);
  ASSERT_TRUE(served.answer(request_of(helpful, 4)).has_value());
  const auto report = served.answer(request_of(useful, 4))->reuse;
  EXPECT_EQ(report.matched, first_other);
  EXPECT_EQ(report.reused, 0);
  EXPECT_EQ(report.limit, ReuseLimit::kNoCheckpoint);
  const auto again = served.answer(request_of(useful, 4))->reuse;
  EXPECT_EQ(again.limit, ReuseLimit::kNoCheckpoint);
  EXPECT_EQ(again.matched, static_cast<int>(useful.tokens.size()));
  EXPECT_GT(again.reused, 0);
}

// The state at the end of the system text serves whoever begins with it.
TEST(Reuse, ChatsShareTheirSystemText) {
  Served served;
  const std::string system = story("Zoe", 20);
  const auto first = ask(*served.engine, {said(Role::kSystem, system), said(Role::kUser, "What is 17 + 25?")});
  const auto second = ask(*served.engine, {said(Role::kSystem, system), said(Role::kUser, "What is 3 + 4?")});
  ASSERT_TRUE(served.answer(request_of(first)).has_value());
  const auto result = *served.answer(request_of(second));
  EXPECT_EQ(result.cached_tokens, first.borders[1]);
  EXPECT_EQ(result.tokens, cold(second));
}

// R019
TEST(Reuse, TwoChatsInTurnKeepEachTheirOwn) {
  Served served;
  Turns a(served), b(served);
  int before_a = 0, before_b = 0;
  for (int turn = 0; turn < 4; ++turn) {
    for (auto [turns, before, name] : {std::tuple(&a, &before_a, "Zoe"), std::tuple(&b, &before_b, "Ben")}) {
      const auto result = turns->say(turn == 0 ? story(name, 20) : "What is 3 + " + std::to_string(turn) + "?");
      EXPECT_GE(result.cached_tokens, *before - 8) << name << turn;
      *before = result.prompt_tokens;
      turns->hear(result);
    }
  }
}

TEST(Reuse, WhatTheBudgetCannotHoldIsSaidToBeOverIt) {
  Served served(served_options(1, kShortStateBytes));
  const auto prompt = ask(*served.engine, story("Zoe", 60));
  const auto first = *served.answer(request_of(prompt, 4));
  EXPECT_GT(first.reuse.over_budget, 0);
  const auto second = *served.answer(request_of(prompt, 4));
  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_EQ(second.cached_tokens, 0);
  EXPECT_EQ(second.reuse.limit, ReuseLimit::kOverBudget);
  EXPECT_EQ(served.scheduler->stats().checkpoint_bytes, 0u);
}

TEST(Reuse, WhatMadeRoomIsSaidToHaveBeenEvicted) {
  Served served(served_options(1, 2 * kShortStateBytes));
  const auto first = ask(*served.engine, "What is the capital of France?"), second = ask(*served.engine, "Count from 10 to 25.");
  ASSERT_TRUE(served.answer(request_of(first)).has_value());
  ASSERT_TRUE(served.answer(request_of(second)).has_value());
  EXPECT_EQ(served.answer(request_of(first))->reuse.limit, ReuseLimit::kEvicted);
}

// R021: whatever a search may look at first, tokens decide.
TEST(Reuse, PromptsThatDifferInOneWordKeepTheirOwnAnswers) {
  Served served;
  EXPECT_THAT(served.answer(request_of(ask(*served.engine, "Capital of France?")))->text, ::testing::HasSubstr("Paris"));
  EXPECT_THAT(served.answer(request_of(ask(*served.engine, "Capital of Italy?")))->text, ::testing::HasSubstr("Rome"));
  EXPECT_THAT(served.answer(request_of(ask(*served.engine, "Capital of France?")))->text, ::testing::HasSubstr("Paris"));
}

// A prompt that is given up in its middle leaves what was read of it.
TEST(Reuse, APromptThatIsGivenUpIsNotReadAgain) {
  auto options = served_options(1);
  options.chunk_tokens = 64;
  Served served(options);
  auto request = request_of(ask(*served.engine, story("Zoe", 40)), 4);
  std::optional<ServeHandle> handle;
  std::promise<void> there;
  auto given_up = request;
  given_up.on_prefill = [&](int done, int) {
    if (done == 64) there.get_future().wait();
    if (done >= 128) handle->cancel();
  };
  auto end = served.submit(given_up, &handle);
  there.set_value();
  EXPECT_EQ(end.get()->finish, FinishReason::kCancelled);
  const auto again = *served.answer(request);
  EXPECT_EQ(again.cached_tokens, 128);
  EXPECT_EQ(again.tokens, [&] {
    Served fresh;
    return fresh.answer(request)->tokens;
  }());
}

// The step behind a stop string was computed by a device that ran ahead, or not: the state kept of the answer is the one before it.
TEST(Reuse, AnAnswerThatWasStoppedGoesOnWhereItStopped) {
  Served served;
  auto stopped = request_of(ask(*served.engine, "Count from 10 to 25."));
  const auto whole = *served.answer(stopped);
  stopped.stop = {"13"};
  const auto part = *served.answer(stopped);
  ASSERT_EQ(part.finish, FinishReason::kStopString);
  auto longer = stopped;
  longer.stop = {};
  longer.prompt.insert(longer.prompt.end(), part.tokens.begin(), part.tokens.end());
  const auto rest = *served.answer(longer);
  EXPECT_EQ(rest.cached_tokens, static_cast<int>(longer.prompt.size()) - 1);
  std::vector<TokenId> joined = part.tokens;
  joined.insert(joined.end(), rest.tokens.begin(), rest.tokens.end());
  EXPECT_EQ(joined, whole.tokens);
}

}  // namespace
}  // namespace lily
