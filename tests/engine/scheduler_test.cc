// A scheduler on the pocket checkpoint: the answers of a session, a bounded queue, requests that are given up, an orderly end.
#include "engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "tests/engine/served.h"

namespace lily {
namespace {

using ::testing::HasSubstr;
using std::chrono::milliseconds;

TEST(Scheduler, AnswersAsASessionDoes) {
  const auto alone = open_or_fail(pocket_options());
  Served served;
  for (const char* question : {"What is the capital of France?", "Count from 10 to 25.", "What is 17 + 25?"}) {
    const auto request = request_of(ask(*alone, question));
    const auto expected = alone->session().generate(request);
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    const auto result = served.answer(request);
    ASSERT_TRUE(result.has_value()) << result.error().message;
    EXPECT_EQ(result->tokens, expected->tokens);
    EXPECT_EQ(result->text, expected->text);
    EXPECT_EQ(result->finish, expected->finish);
  }
  const auto stats = served.scheduler->stats();
  EXPECT_EQ(stats.submitted, 3u);
  EXPECT_EQ(stats.finished, 3u);
  EXPECT_EQ(stats.running + stats.waiting, 0);
}

TEST(Scheduler, ABadRequestIsRefusedAtOnce) {
  Served served;
  auto request = request_of(ask(*served.engine, "Hi"));
  request.sampling.temperature = -1;
  const auto refused = served.scheduler->submit(request, [](const Result<GenerateResult>&) { ADD_FAILURE(); });
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("temperature"));
}

// Holds the scheduler's thread in the first token of a request, which no program should do.
struct Held {
  std::promise<void> begun, go;
  GenerateRequest request(const Engine& engine) {
    auto out = request_of(ask(engine, "Count from 10 to 25."));
    out.on_token = [this, first = true](const TokenEvent&) mutable {
      if (!std::exchange(first, false)) return;
      begun.set_value();
      go.get_future().wait();
    };
    return out;
  }
};

TEST(Scheduler, TheQueueIsBoundedAndSaysHowLongItIs) {
  Served served(1, {.max_waiting = 2});
  Held held;
  auto first = served.submit(held.request(*served.engine));
  held.begun.get_future().wait();
  const auto request = request_of(ask(*served.engine, "What is 17 + 25?"));
  auto second = served.submit(request), third = served.submit(request);
  const auto refused = served.scheduler->submit(request, [](const Result<GenerateResult>&) { ADD_FAILURE(); });
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kBusy);
  EXPECT_THAT(refused.error().message, HasSubstr("2 requests wait"));
  EXPECT_EQ(served.scheduler->stats().waiting, 2);
  EXPECT_EQ(served.scheduler->stats().refused, 1u);
  held.go.set_value();
  EXPECT_EQ(first.get()->finish, FinishReason::kEnd);
  EXPECT_EQ(second.get()->text, "17 + 25 = 42");
  EXPECT_EQ(third.get()->text, "17 + 25 = 42");
}

TEST(Scheduler, WithoutAQueueThereAreAsManyRequestsAsPlaces) {
  Served served(2, {.max_waiting = 0});
  Held held;
  auto first = served.submit(held.request(*served.engine));
  const auto request = request_of(ask(*served.engine, "What is 17 + 25?"));
  auto second = served.submit(request);
  EXPECT_FALSE(served.scheduler->submit(request, [](const Result<GenerateResult>&) { ADD_FAILURE(); }).has_value());
  held.go.set_value();
  EXPECT_TRUE(first.get().has_value());
  EXPECT_TRUE(second.get().has_value());
  EXPECT_TRUE(served.answer(request).has_value());
}

TEST(Scheduler, ARequestThatIsGivenUpEndsWithinAStepWhetherItRunsOrWaits) {
  Served served(1);
  std::optional<ServeHandle> handle;
  std::promise<void> there;
  auto request = request_of(ask(*served.engine, "Count from 10 to 25."));
  int seen = 0;
  request.on_token = [&](const TokenEvent&) {
    if (++seen == 1) there.get_future().wait();
    if (seen == 3) handle->cancel();
  };
  auto running = served.submit(request, &handle);
  std::optional<ServeHandle> other;
  auto waiting = served.submit(request_of(ask(*served.engine, "Capital of Kenya?")), &other);
  other->cancel();
  there.set_value();
  const auto stopped = running.get();
  ASSERT_TRUE(stopped.has_value()) << stopped.error().message;
  EXPECT_EQ(stopped->finish, FinishReason::kCancelled);
  EXPECT_EQ(stopped->tokens.size(), 3u);
  const auto never = waiting.get();
  ASSERT_TRUE(never.has_value()) << never.error().message;
  EXPECT_EQ(never->finish, FinishReason::kCancelled);
  EXPECT_TRUE(never->tokens.empty());
  EXPECT_EQ(served.scheduler->stats().cancelled, 2u);
}

TEST(Scheduler, DrainWaitsForWhatWasTakenAndTakesNoMore) {
  Served served;
  auto last = served.submit(request_of(ask(*served.engine, "Count from 10 to 25.")));
  served.scheduler->drain(milliseconds(60'000));
  ASSERT_EQ(last.wait_for(milliseconds(0)), std::future_status::ready);
  EXPECT_EQ(last.get()->finish, FinishReason::kEnd);
  const auto refused = served.scheduler->submit(request_of(ask(*served.engine, "Hi")), [](const Result<GenerateResult>&) {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kBusy);
}

TEST(Scheduler, WhatIsLeftAfterTheGraceIsCancelled) {
  Served served;
  auto request = request_of(ask(*served.engine, "Count from 10 to 25."));
  request.sampling.logit_bias = {{300, 100.0f}};  // Never an end token.
  request.max_tokens = 4'000;
  auto running = served.submit(request), waiting = served.submit(request);
  served.scheduler->drain(milliseconds(20));
  EXPECT_EQ(running.get()->finish, FinishReason::kCancelled);
  EXPECT_EQ(waiting.get()->finish, FinishReason::kCancelled);
}

}  // namespace
}  // namespace lily
