// Any interleaving of new questions, follow-ups, edits, regenerated answers and cancelled ones, on any number of sequences, with any budget
// for kept states and any chunks: each answer has the bytes and log-probabilities of a run that has seen nothing else.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "tests/engine/served.h"

namespace lily {
namespace {

struct Told {
  std::vector<TokenId> tokens;
  std::vector<float> log_probs;
  bool operator==(const Told&) const = default;
};

constexpr int kMostTokens = 10;

// What a client asks: words of a small world, so that prompts share beginnings.
const char* const kQuestions[] = {"What is 17 + 25?", "Capital of Kenya?", "What colour is snow?", "Count from 10 to 25."};
const char* const kReplies[] = {"17 + 25 = 42", "Nairobi.", "Snow is white."};

using Choices = std::vector<int>;  // Question, reply, question, reply ... question.

ChatPrompt prompt_of(const Engine& engine, const Choices& choices) {
  std::vector<Message> messages;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    messages.push_back(i % 2 == 0 ? said(Role::kUser, kQuestions[choices[i] % 4]) : said(Role::kAssistant, kReplies[choices[i] % 3]));
  }
  return ask(engine, messages);
}

// Cold and alone, computed once for each prompt.
const Told& expected(const Choices& choices) {
  static const auto engine = open_or_fail(pocket_options());
  static std::map<Choices, Told> known;
  const auto [found, is_new] = known.try_emplace(choices);
  if (is_new) {
    engine->session().clear();
    auto request = request_of(prompt_of(*engine, choices), kMostTokens);
    request.on_token = [&told = found->second](const TokenEvent& event) {
      if (event.token < 0) return;
      told.tokens.push_back(event.token);
      told.log_probs.push_back(event.log_prob);
    };
    EXPECT_TRUE(engine->session().generate(request).has_value());
  }
  return found->second;
}

struct Asked {
  Choices choices;
  Told told;
  std::optional<ServeHandle> handle;
  std::future<Result<GenerateResult>> end;
};

void submit(Served& served, Asked& asked) {
  auto request = request_of(prompt_of(*served.engine, asked.choices), kMostTokens);
  request.on_token = [&asked](const TokenEvent& event) {
    if (event.token < 0) return;
    asked.told.tokens.push_back(event.token);
    asked.told.log_probs.push_back(event.log_prob);
  };
  asked.end = served.submit(std::move(request), &asked.handle);
}

// The next thing that clients do: half of the time something that goes on from what was asked before.
Choices next_choices(const std::vector<std::unique_ptr<Asked>>& before) {
  const int what = *rc::gen::inRange(0, 4);
  const auto any = [] { return *rc::gen::inRange(0, 12); };
  if (before.empty() || what == 0) return {any()};
  Choices choices = before[*rc::gen::inRange<std::size_t>(0, before.size())]->choices;
  if (what == 1 && choices.size() < 7) choices.insert(choices.end(), {any(), any()});
  if (what == 2) choices.back() = any();
  return choices;
}

void check(Asked& asked) {
  const auto result = asked.end.get();
  RC_ASSERT(result.has_value());
  const Told& whole = expected(asked.choices);
  if (result->finish != FinishReason::kCancelled) {
    RC_ASSERT(asked.told == whole);
    return;
  }
  const std::size_t n = asked.told.tokens.size();
  RC_ASSERT(n <= whole.tokens.size());
  RC_ASSERT(std::equal(asked.told.tokens.begin(), asked.told.tokens.end(), whole.tokens.begin()));
  RC_ASSERT(std::equal(asked.told.log_probs.begin(), asked.told.log_probs.end(), whole.log_probs.begin()));
}

RC_GTEST_PROP(Interleaving, EveryAnswerIsTheOneOfAColdRun, ()) {
  auto options = served_options(*rc::gen::inRange(1, 5), static_cast<std::size_t>(*rc::gen::inRange(0, 40)) << 20);
  options.chunk_tokens = *rc::gen::inRange(9, 100);
  options.context_tokens = 256;
  options.kv_tokens = 64 * *rc::gen::inRange(4, 16);
  std::vector<std::unique_ptr<Asked>> all;  // Told of as long as the scheduler is there.
  Served served(options, {.checkpoint_every_tokens = *rc::gen::inRange(8, 64)});
  const int n = *rc::gen::inRange(3, 10);
  for (int i = 0; i < n; ++i) {
    auto asked = std::make_unique<Asked>();
    asked->choices = next_choices(all);
    submit(served, *asked);
    all.push_back(std::move(asked));
    if (*rc::gen::inRange(0, 4) == 0) all[*rc::gen::inRange<std::size_t>(0, all.size())]->handle->cancel();
    if (*rc::gen::inRange(0, 3) == 0) all.back()->end.wait();
  }
  for (auto& asked : all) check(*asked);
}

}  // namespace
}  // namespace lily
