// Decode on devices that run ahead of the host: the answers, states and errors of a host that keeps
// step, whatever the device has begun meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "tests/engine/lazy_backend.h"
#include "tests/engine/pocket.h"

namespace lily {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

struct Answer {
  std::vector<TokenId> tokens;
  std::vector<float> log_probs;
  std::string text;
  FinishReason finish;
  int cached_tokens;
  bool operator==(const Answer&) const = default;
};

Answer answer(Engine& engine, GenerateRequest request) {
  Answer out{};
  request.on_token = [&](const TokenEvent& event) {
    if (event.token >= 0) out.log_probs.push_back(event.log_prob);
  };
  const auto result = engine.session().generate(request);
  EXPECT_TRUE(result.has_value()) << result.error().message;
  if (!result) return out;
  out.tokens = result->tokens;
  out.text = result->text;
  out.finish = result->finish;
  out.cached_tokens = result->cached_tokens;
  return out;
}

EngineOptions options_with(bool token_on_device, bool two_in_flight) {
  auto options = pocket_options();
  options.n_checkpoints = 3;
  options.backend_options.mechanisms = Mechanisms{.token_on_device = token_on_device, .two_in_flight = two_in_flight};
  return options;
}

// Nothing is kept, so that a prompt is one pass.
EngineOptions keeping_nothing(EngineOptions options) {
  options.n_checkpoints = 0;
  return options;
}

// The pocket on a CPU that computes a pass when the host waits for it.
struct Lazy {
  explicit Lazy(EngineOptions options = options_with(true, true)) {
    const Mechanisms mechanisms = options.backend_options.mechanisms.value_or(Mechanisms{});
    options.make_backend = [this, mechanisms]() -> Result<std::unique_ptr<Backend>> {
      auto opened = std::make_unique<LazyBackend>(*open_backend("cpu", {}));
      LILY_RETURN_IF_ERROR(opened->set_mechanisms(mechanisms));
      backend = opened.get();
      return opened;
    };
    engine = open_or_fail(options);
  }
  LazyBackend* backend = nullptr;
  std::unique_ptr<Engine> engine;
};

// Greedy, sampled with penalties, one that stops in the middle, one that is cut; a second turn that
// continues the first, one that shares a part, the same again.
std::vector<Answer> conversation(Engine& engine) {
  std::vector<Answer> out;
  const auto first = ask(engine, "Count from 10 to 25.");
  out.push_back(answer(engine, request_of(first)));
  auto messages = std::vector<Message>{said(Role::kUser, "Count from 10 to 25."),
                                       said(Role::kAssistant, out.back().text),
                                       said(Role::kUser, "What is 17 + 25?")};
  out.push_back(answer(engine, request_of(ask(engine, messages))));
  auto sampled = request_of(ask(engine, "Tell me a story about a fox."), 24);
  sampled.sampling = {.temperature = 1.3f,
                      .top_p = 0.95f,
                      .repetition_penalty = 1.1f,
                      .presence_penalty = 0.5f,
                      .seed = 7};
  out.push_back(answer(engine, sampled));
  auto stopped = request_of(first);
  stopped.stop = {"13"};
  out.push_back(answer(engine, stopped));
  auto continued = stopped;
  continued.prompt.insert(continued.prompt.end(), out.back().tokens.begin(),
                          out.back().tokens.end());
  continued.stop = {};
  out.push_back(answer(engine, continued));
  out.push_back(answer(engine, request_of(first, 1)));
  out.push_back(answer(engine, request_of(first, 2)));
  return out;
}

TEST(Ahead, EveryWayGivesTheAnswersOfAHostThatKeepsStep) {
  const auto plain = open_or_fail(options_with(true, true));
  const auto expected = conversation(*plain);
  EXPECT_EQ(expected[0].finish, FinishReason::kEnd);
  EXPECT_EQ(expected[3].finish, FinishReason::kStopString);
  EXPECT_GT(expected[1].cached_tokens, 0);
  for (const bool token_on_device : {true, false}) {
    for (const bool two_in_flight : {true, false}) {
      Lazy lazy(options_with(token_on_device, two_in_flight));
      EXPECT_EQ(conversation(*lazy.engine), expected) << token_on_device << two_in_flight;
    }
  }
}

// An answer cut where the device has gone on: what follows begins at the last right state.
TEST(Ahead, AStepPastTheEndLeavesNoTrace) {
  Lazy lazy;
  const auto plain = open_or_fail(options_with(true, true));
  const auto prompt = ask(*plain, "Count from 10 to 25.");
  for (Engine* engine : {plain.get(), lazy.engine.get()}) {
    auto stopped = request_of(prompt);
    stopped.stop = {"12"};
    const auto begun = answer(*engine, stopped);
    ASSERT_EQ(begun.finish, FinishReason::kStopString);
    auto longer = stopped;
    longer.stop = {};
    longer.prompt.insert(longer.prompt.end(), begun.tokens.begin(), begun.tokens.end());
    const auto rest = answer(*engine, longer);
    // All but the last token, which no pass has seen.
    EXPECT_EQ(rest.cached_tokens, static_cast<int>(longer.prompt.size()) - 1);
    engine->session().clear();
    const auto cold = answer(*engine, longer);
    EXPECT_EQ(cold.tokens, rest.tokens);
    EXPECT_EQ(cold.log_probs, rest.log_probs);
  }
}

// How many passes behind the one that the host waits for are enqueued, wait by wait.
std::vector<Ticket> passes_behind(Lazy& lazy, const GenerateRequest& request) {
  std::vector<Ticket> out;
  lazy.backend->on_wait = [&](Ticket ticket, Ticket submitted) {
    out.push_back(submitted - ticket);
  };
  answer(*lazy.engine, request);
  lazy.backend->on_wait = nullptr;
  return out;
}

TEST(Ahead, ThePassBehindIsEnqueuedBeforeOneEndsAndNoOtherBehindThat) {
  Lazy lazy(keeping_nothing(options_with(true, true)));
  auto request = request_of(ask(*lazy.engine, "Count from 10 to 25."), 12);
  request.borders = {};
  auto behind = passes_behind(lazy, request);
  ASSERT_EQ(behind.size(), 12u);
  EXPECT_EQ(behind.back(), 0u);  // Behind the last token that was asked for nothing comes.
  behind.pop_back();
  EXPECT_THAT(behind, Each(1u));
  for (auto options : {options_with(true, false), options_with(false, true)}) {
    Lazy other(keeping_nothing(options));
    EXPECT_THAT(passes_behind(other, request), Each(0u));
  }
  request.lockstep = true;
  EXPECT_THAT(passes_behind(lazy, request), Each(0u));
}

TEST(Ahead, AnAnswerThatEndsCostsAtMostOnePassTooMany) {
  Lazy lazy;
  const auto result = lazy.engine->session().generate(
      request_of(ask(*lazy.engine, "What is the capital of France?")));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->finish, FinishReason::kEnd);
  EXPECT_EQ(result->decode_passes, static_cast<int>(result->tokens.size()) + 1);
}

TEST(Ahead, TheContextEndsTheAnswerAtItsLastPosition) {
  auto options = options_with(true, true);
  options.context_tokens = 40;
  Lazy lazy(options);
  auto request = request_of(ask(*lazy.engine, "Count from 10 to 25."), 0);
  const auto cut = answer(*lazy.engine, request);
  EXPECT_EQ(cut.finish, FinishReason::kContextFull);
  EXPECT_EQ(cut.tokens.size() + request.prompt.size(), 40u);
  EXPECT_EQ(cut, answer(*open_or_fail(options), request));
}

TEST(Ahead, CancellingEndsTheAnswerWithTheTokenThatWasTakenLast) {
  Lazy lazy;
  std::atomic<bool> cancel = false;
  auto request = request_of(ask(*lazy.engine, "Count from 10 to 25."));
  const auto whole = answer(*lazy.engine, request);
  request.cancel = &cancel;
  int seen = 0;
  request.on_token = [&](const TokenEvent&) { cancel = ++seen == 3; };
  const auto stopped = lazy.engine->session().generate(request);
  ASSERT_TRUE(stopped.has_value());
  EXPECT_EQ(stopped->finish, FinishReason::kCancelled);
  EXPECT_EQ(stopped->tokens.size(), 3u);
  request.cancel = nullptr;
  EXPECT_EQ(answer(*lazy.engine, request).tokens, whole.tokens);
}

TEST(Ahead, ALogitThatIsNotFiniteIsToldWhereItComesAndTheSessionGoesOn) {
  Lazy lazy(keeping_nothing(options_with(true, true)));
  auto request = request_of(ask(*lazy.engine, "Count from 10 to 25."));
  request.borders = {};
  const auto expected = answer(*lazy.engine, request);
  lazy.engine->session().clear();
  const Ticket fifth = lazy.backend->submitted() + 5;
  lazy.backend->before_choose = [&](Ticket ticket, const ChooseArgs& args) {
    if (ticket == fifth) const_cast<float*>(args.logits)[0] = std::nanf("");
  };
  std::vector<TokenId> told;
  request.on_token = [&](const TokenEvent& event) { told.push_back(event.token); };
  const auto failed = lazy.engine->session().generate(request);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::kNotFinite);
  EXPECT_EQ(told, std::vector(expected.tokens.begin(), expected.tokens.begin() + 4));
  lazy.backend->before_choose = nullptr;
  EXPECT_EQ(answer(*lazy.engine, request), expected);
}

TEST(Ahead, APassThatFailsEndsTheAnswerAndOnePastTheEndOnlyTheState) {
  Lazy lazy(keeping_nothing(options_with(true, true)));
  auto request = request_of(ask(*lazy.engine, "What is the capital of France?"));
  request.borders = {};
  const auto expected = answer(*lazy.engine, request);
  lazy.engine->session().clear();
  lazy.backend->fails = lazy.backend->submitted() + 3;
  const auto failed = lazy.engine->session().generate(request);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().message, "planted");
  EXPECT_EQ(answer(*lazy.engine, request), expected);
  lazy.engine->session().clear();
  // The prompt, each token and the end token have a pass of their own.
  lazy.backend->fails = lazy.backend->submitted() + expected.tokens.size() + 2;
  EXPECT_EQ(answer(*lazy.engine, request), expected);
  EXPECT_EQ(answer(*lazy.engine, request), expected);
  EXPECT_FALSE(lazy.backend->fails.has_value());
}

// The true device, which runs while the host works.
TEST(Ahead, OnTheEmulatorEveryWayGivesTheSame) {
  std::optional<std::vector<Answer>> expected;
  for (const bool token_on_device : {false, true}) {
    for (const bool two_in_flight : {false, true}) {
      auto options = options_with(token_on_device, two_in_flight);
      options.backend = "emulator";
      const auto engine = open_or_fail(options);
      const auto prompt = ask(*engine, "What is 17 + 25?");
      auto sampled = request_of(prompt, 6);
      sampled.sampling = {.temperature = 1.5f, .repetition_penalty = 1.2f, .seed = 3};
      auto stopped = request_of(prompt);
      stopped.stop = {"+ 25"};
      const std::vector<Answer> answers{answer(*engine, request_of(prompt)),
                                        answer(*engine, sampled), answer(*engine, stopped)};
      if (!expected) expected = answers;
      EXPECT_EQ(answers, *expected) << token_on_device << two_in_flight;
      EXPECT_EQ(answers[0].text, "17 + 25 = 42");
    }
  }
}

TEST(Ahead, OnTheEmulatorAWishFromAnotherThreadEndsTheAnswer) {
  auto options = pocket_options("emulator");
  const auto engine = open_or_fail(options);
  std::atomic<bool> cancel = false;
  auto request = request_of(ask(*engine, "Count from 10 to 25."));
  request.cancel = &cancel;
  std::thread wish;
  request.on_token = [&](const TokenEvent&) {
    if (!wish.joinable()) wish = std::thread([&] { cancel = true; });
  };
  const auto stopped = engine->session().generate(request);
  wish.join();
  ASSERT_TRUE(stopped.has_value());
  EXPECT_EQ(stopped->finish, FinishReason::kCancelled);
  EXPECT_LT(stopped->tokens.size(), 20u);
}

}  // namespace
}  // namespace lily
