// Several answers at a time: each has the bytes, and on a CPU the log-probabilities, that it has alone, whoever joins, leaves, fails or
// waits beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "tests/engine/lazy_backend.h"
#include "tests/engine/served.h"

namespace lily {
namespace {

using ::testing::HasSubstr;

struct Told {
  std::vector<TokenId> tokens;
  std::vector<float> log_probs;
  std::string text;
  bool operator==(const Told&) const = default;
};

// A request whose tokens are written down. What is written is read after its future.
GenerateRequest writing_down(GenerateRequest request, Told& told) {
  request.on_token = [&told](const TokenEvent& event) {
    told.text += event.text;
    if (event.token < 0) return;
    told.tokens.push_back(event.token);
    told.log_probs.push_back(event.log_prob);
  };
  return request;
}

std::string long_question(int n_sentences) {
  std::string text = "Remember this: the secret word of Zoe is leaf-254. ";
  for (int i = 0; i < n_sentences; ++i) text += "The fox went to the river and saw a bear near the old bridge. ";
  return text + "What is the secret word of Zoe?";
}

std::vector<std::string> questions() {
  return {"Capital of Japan?", long_question(30), "Count from 10 to 25.",  "Repeat after me: fox bear lamp",
          long_question(12),   "What is 17 + 25?", "What colour is snow?", "Tell me a story about a fox."};
}

std::vector<Told> alone(EngineOptions options, const std::vector<std::string>& asked, int max_tokens) {
  options.n_sequences = 1;
  Served served(options);
  std::vector<Told> out(asked.size());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto result = served.answer(writing_down(request_of(ask(*served.engine, asked[i]), max_tokens), out[i]));
    EXPECT_TRUE(result.has_value()) << result.error().message;
  }
  return out;
}

std::vector<Told> together(Served& served, const std::vector<std::string>& asked, int max_tokens) {
  std::vector<Told> out(asked.size());
  std::vector<std::future<Result<GenerateResult>>> ends;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    ends.push_back(served.submit(writing_down(request_of(ask(*served.engine, asked[i]), max_tokens), out[i])));
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * i));
  }
  for (auto& end : ends) {
    const auto result = end.get();
    EXPECT_TRUE(result.has_value()) << result.error().message;
  }
  return out;
}

// R027, R029
TEST(Batch, EachAnswerIsTheOneItIsAlone) {
  const auto expected = alone(served_options(1), questions(), 40);
  EXPECT_THAT(expected[1].text, HasSubstr("leaf-254"));
  for (const int n_sequences : {1, 2, 3, 8}) {
    auto options = served_options(n_sequences);
    options.backend_options.threads = n_sequences % 2 + 1;
    options.chunk_tokens = n_sequences == 3 ? 50 : 512;
    Served served(options);
    EXPECT_EQ(together(served, questions(), 40), expected) << n_sequences;
  }
}

TEST(Batch, OnTheEmulatorToo) {
  const std::vector<std::string> asked{"Capital of Japan?", "What is 17 + 25?", "Count from 10 to 25."};
  auto options = served_options(3);
  options.backend = "emulator";
  const auto expected = alone(options, asked, 5);
  Served served(options);
  EXPECT_EQ(together(served, asked, 5), expected);
}

// Chunks of a prompt are cut elsewhere beside others, and a card reads few rows and many with other roundings: the tokens are the same.
TEST(Batch, OnACardToo) {
  if (const auto card = open_backend("cuda", {}); !card) GTEST_SKIP() << "no CUDA here: " << card.error().message;
  auto options = served_options(8);
  options.backend = "cuda";
  const auto tokens_of = [](const std::vector<Told>& all) {
    std::vector<std::vector<TokenId>> out;
    for (const Told& one : all) out.push_back(one.tokens);
    return out;
  };
  const auto expected = tokens_of(alone(options, questions(), 40));
  for (const int n_sequences : {2, 5, 8}) {
    options.n_sequences = n_sequences;
    Served served(options);
    EXPECT_EQ(tokens_of(together(served, questions(), 40)), expected) << n_sequences;
  }
}

// A device that runs ahead: answers begin, end and are given up while the next pass is under way.
EngineOptions ahead(int n_sequences, LazyBackend*& backend) {
  auto options = served_options(n_sequences);
  options.make_backend = [&backend]() -> Result<std::unique_ptr<Backend>> {
    auto opened = std::make_unique<LazyBackend>(*open_backend("cpu", {}));
    backend = opened.get();
    return opened;
  };
  return options;
}

TEST(Batch, OnADeviceThatRunsAheadToo) {
  const auto expected = alone(served_options(1), questions(), 40);
  LazyBackend* backend = nullptr;
  Served served(ahead(4, backend));
  EXPECT_EQ(together(served, questions(), 40), expected);
}

TEST(Batch, ALoneAnswerOnADeviceThatRunsAheadHasTwoPassesInFlight) {
  LazyBackend* backend = nullptr;
  Served served(ahead(2, backend));
  int n_behind = 0;
  backend->on_wait = [&](Ticket waited, Ticket submitted) { n_behind += submitted > waited; };
  const auto result = served.answer(request_of(ask(*served.engine, "Count from 10 to 25."), 30));
  ASSERT_TRUE(result.has_value());
  EXPECT_GT(n_behind, 25);
}

TEST(Batch, MoreAnswersThanAPassHasRowsTakeTurns) {
  LazyBackend* backend = nullptr;
  auto options = served_options(4);
  options.make_backend = [&backend]() -> Result<std::unique_ptr<Backend>> {
    auto opened = std::make_unique<LazyBackend>(*open_backend("cpu", {}), 3);
    backend = opened.get();
    return opened;
  };
  const auto expected = alone(served_options(1), questions(), 20);
  Served served(options);
  EXPECT_EQ(together(served, questions(), 20), expected);
}

// One prompt, several answers: it is read once, and each draws as it does alone.
TEST(Batch, AnswersToOnePromptReadItOnce) {
  Served served(4), single(1);
  auto request = request_of(ask(*served.engine, long_question(20)), 12);
  request.sampling.temperature = 1.2f;
  std::vector<Told> together(3), expected(3);
  std::vector<std::future<Result<GenerateResult>>> ends;
  for (std::size_t i = 0; i < 3; ++i) {
    request.sampling.seed = i;
    ends.push_back(served.submit(writing_down(request, together[i])));
  }
  for (auto& end : ends) ASSERT_TRUE(end.get().has_value());
  for (std::size_t i = 0; i < 3; ++i) {
    request.sampling.seed = i;
    ASSERT_TRUE(single.answer(writing_down(request, expected[i])).has_value());
  }
  EXPECT_EQ(together, expected);
  EXPECT_LE(served.scheduler->stats().prompt_tokens, request.prompt.size() + 2 * 8);
}

TEST(Batch, ALongPromptDoesNotStopThoseThatAnswer) {
  auto options = served_options(2);
  options.chunk_tokens = 64;
  Served served(options);
  auto counting = request_of(ask(*served.engine, "Count from 10 to 25."), 4000);  // On a slow machine a chunk leaves time for many tokens.
  counting.sampling.logit_bias = {{300, 100.0f}};
  std::promise<void> begun;
  int n_tokens = 0, n_chunks = -1, n_starved = 0, before = -1;
  counting.on_token = [&](const TokenEvent&) {
    if (++n_tokens == 1) begun.set_value();
  };
  auto long_one = request_of(ask(*served.engine, long_question(40)), 2);
  long_one.on_prefill = [&](int, int) {
    if (++n_chunks == 0) return;  // What was kept, before the first chunk.
    n_starved += n_tokens == before;
    before = n_tokens;
  };
  std::optional<ServeHandle> handle;
  auto running = served.submit(counting, &handle);
  begun.get_future().wait();
  ASSERT_TRUE(served.answer(long_one).has_value());
  handle->cancel();
  EXPECT_EQ(running.get()->finish, FinishReason::kCancelled);
  EXPECT_GT(n_chunks, 5);
  EXPECT_EQ(n_starved, 0);
}

// Fewer pages than all answers need: whoever came last steps aside, and comes back with the same bytes.
TEST(Batch, AnswersThatDoNotFitTogetherTakeTurns) {
  const auto expected = alone(served_options(1), {long_question(20), long_question(25), long_question(15)}, 200);
  auto options = served_options(3);
  options.context_tokens = 640;
  options.kv_tokens = 640;
  Served served(options);
  EXPECT_EQ(together(served, {long_question(20), long_question(25), long_question(15)}, 200), expected);
}

// Only these tokens, one after the other, then the end.
class Recited final : public TokenConstraint {
 public:
  explicit Recited(std::vector<TokenId> tokens) : tokens_(std::move(tokens)) {}
  void allowed(std::span<std::uint32_t> bits) override {
    std::fill(bits.begin(), bits.end(), 0u);
    const auto id = static_cast<std::size_t>(tokens_[at_]);
    bits[id / 32] |= 1u << (id % 32);
  }
  bool accept(TokenId token) override { return token == tokens_[at_++]; }

 private:
  std::vector<TokenId> tokens_;
  std::size_t at_ = 0;
};

TEST(Batch, AConstraintHoldsForItsOwnAnswerOnly) {
  const auto expected = alone(served_options(1), {"Count from 10 to 25."}, 30);
  LazyBackend* backend = nullptr;
  Served plain(2), running_ahead(ahead(2, backend));
  for (Served* served : {&plain, &running_ahead}) {
    const auto end_token = served->engine->spec().end_tokens.front();
    auto recited = request_of(ask(*served->engine, "What is 17 + 25?"));
    recited.constraint = std::make_shared<Recited>(std::vector<TokenId>{300, 400, 500, 600, end_token});
    Told told;
    auto beside = served->submit(writing_down(request_of(ask(*served->engine, "Count from 10 to 25."), 30), told));
    const auto result = served->answer(recited);
    ASSERT_TRUE(result.has_value()) << result.error().message;
    EXPECT_EQ(result->tokens, (std::vector<TokenId>{300, 400, 500, 600}));
    EXPECT_EQ(result->finish, FinishReason::kEnd);
    ASSERT_TRUE(beside.get().has_value());
    EXPECT_EQ(told, expected[0]);
    // The sequence is somebody else's now.
    EXPECT_EQ(served->answer(request_of(ask(*served->engine, "What is 17 + 25?")))->text, "17 + 25 = 42");
  }
}

// A token whose row of the embedding holds NaN, as a damaged weight would.
constexpr TokenId kPoisoned = 700;
void poison(LazyBackend& backend, int hidden) {
  backend.after_embed = [hidden](const EmbedArgs& args) {
    for (int row = 0; row < args.control->n_rows; ++row) {
      if (args.control->tokens[row] == kPoisoned) args.h[row * hidden + 5] = std::numeric_limits<float>::quiet_NaN();
    }
  };
}

TEST(Batch, NotANumberFailsTheRequestThatMeetsItAndNoOther) {
  const auto expected = alone(served_options(1), questions(), 24);
  LazyBackend* backend = nullptr;
  Served served(ahead(3, backend));
  poison(*backend, served.engine->spec().hidden);
  for (int time = 0; time < 2; ++time) {
    auto touching = request_of(ask(*served.engine, long_question(20)));
    touching.prompt[100] = kPoisoned;
    auto bad = served.submit(touching);
    EXPECT_EQ(together(served, questions(), 24), expected);
    const auto failed = bad.get();
    ASSERT_FALSE(failed.has_value());
    EXPECT_EQ(failed.error().code, ErrorCode::kNotFinite);
  }
  EXPECT_EQ(served.scheduler->stats().failed, 2u);
}

// What a bad request left is not what a good one begins with.
TEST(Batch, NothingIsKeptOfARequestThatFailed) {
  LazyBackend* backend = nullptr;
  Served served(ahead(1, backend));
  const auto request = request_of(ask(*served.engine, long_question(20)), 8);
  const auto expected = served.answer(request)->tokens;
  backend->before_choose = [](Ticket, const ChooseArgs& args) { const_cast<float*>(args.logits)[0] = std::nanf(""); };
  EXPECT_FALSE(served.answer(request).has_value());
  backend->before_choose = nullptr;
  const auto again = *served.answer(request);
  EXPECT_EQ(again.cached_tokens, 0);
  EXPECT_EQ(again.tokens, expected);
}

TEST(Batch, ADeviceThatFailsFailsWhatRunsAndTheNextRequestIsServed) {
  LazyBackend* backend = nullptr;
  Served served(ahead(2, backend));
  const auto request = request_of(ask(*served.engine, "Count from 10 to 25."), 20);
  const auto expected = served.answer(request)->tokens;
  backend->fails = backend->submitted() + 6;
  const auto failed = served.answer(request);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().message, "planted");
  EXPECT_EQ(served.answer(request)->tokens, expected);
}

// R037
TEST(Batch, PromptsOfOneTokenAndAFewWork) {
  Served together(4), single(1);
  std::vector<std::future<Result<GenerateResult>>> ends;
  const auto request = [](std::size_t n) {
    return GenerateRequest{.prompt = std::vector<TokenId>(n, 262), .sampling = greedy(), .max_tokens = 4};
  };
  for (std::size_t n = 1; n <= 5; ++n) ends.push_back(together.submit(request(n)));
  for (std::size_t n = 1; n <= 5; ++n) {
    const auto result = *ends[n - 1].get();
    EXPECT_EQ(result.prompt_tokens, static_cast<int>(n));
    EXPECT_EQ(result.tokens, single.answer(request(n))->tokens) << n;
  }
}

}  // namespace
}  // namespace lily
