// Scores pass by pass: looking inside changes no number, and what is seen there fits the scores.
#include "engine/scorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "engine/comparison.h"
#include "engine/eval.h"
#include "tests/engine/pocket.h"
#include "tests/model/fenced_backend.h"

namespace lily {
namespace {

using ::testing::HasSubstr;

std::vector<TokenId> some_tokens(int n) {
  std::vector<TokenId> out;
  for (int i = 0; i < n; ++i) out.push_back(260 + i * 37 % 2000);
  return out;
}

EngineOptions fenced(const std::string& backend) {
  EngineOptions options = pocket_options(backend);
  options.chunk_tokens = 40;
  options.context_tokens = 128;
  options.make_backend = [backend]() -> Result<std::unique_ptr<Backend>> {
    LILY_TRY(auto inner, open_backend(backend, {}));
    return std::unique_ptr<Backend>(std::make_unique<FencedBackend>(std::move(inner)));
  };
  return options;
}

std::vector<ScoredPass> all_passes(Engine& engine, const ScoreRequest& request, bool looks_inside) {
  auto scorer = Scorer::begin(engine, request, looks_inside);
  EXPECT_TRUE(scorer.has_value()) << scorer.error().message;
  std::vector<ScoredPass> out;
  while (!scorer->done()) {
    auto pass = scorer->next();
    EXPECT_TRUE(pass.has_value()) << pass.error().message;
    out.push_back(*std::move(pass));
  }
  return out;
}

class ScorerOn : public ::testing::TestWithParam<const char*> {};

TEST_P(ScorerOn, LookingInsideChangesNoNumber) {
  const bool gpu = std::string(GetParam()) == "emulator";
  EngineOptions options = gpu ? pocket_options("emulator") : fenced(GetParam());
  options.chunk_tokens = gpu ? 8 : 40, options.context_tokens = 128;
  const auto engine = open_or_fail(options);
  const auto ids = some_tokens(gpu ? 12 : 70);
  const ScoreRequest request{.ids = ids, .first = 3, .n_top = 2};
  const auto plain = engine->score(request);
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  std::size_t at = 0;
  const auto layers = static_cast<std::size_t>(engine->spec().n_layers);
  for (const ScoredPass& pass : all_passes(*engine, request, true)) {
    EXPECT_EQ(pass.first, 3 + static_cast<int>(at));
    ASSERT_EQ(pass.streams.size(), layers + 1);
    for (const auto& stream : pass.streams)
      EXPECT_EQ(stream.size(), pass.rows.size() * static_cast<std::size_t>(engine->spec().hidden));
    for (const ScoredRow& row : pass.rows) {
      ASSERT_LT(at, plain->size());
      EXPECT_EQ(row.next_log_prob, (*plain)[at].next_log_prob);
      EXPECT_EQ(row.top_ids, (*plain)[at].top_ids);
      EXPECT_EQ(row.has_next, 3 + at + 1 < ids.size());
      ++at;
    }
  }
  EXPECT_EQ(at, plain->size());
}

INSTANTIATE_TEST_SUITE_P(Backends, ScorerOn, ::testing::Values("cpu", "reference", "emulator"));

TEST(Scorer, WholeDistributionsFitTheScores) {
  const auto engine = open_or_fail(fenced("cpu"));
  const auto ids = some_tokens(37);
  const auto passes = all_passes(*engine, {.ids = ids, .n_top = 1}, true);
  ASSERT_EQ(passes.size(), 1u);  // Two blocks of head rows, the second of five.
  const auto vocab = passes[0].log_probs.size() / passes[0].rows.size();
  EXPECT_EQ(vocab, static_cast<std::size_t>(engine->tokenizer().n_ids()));
  for (std::size_t i = 0; i < passes[0].rows.size(); ++i) {
    const auto log_probs = std::span(passes[0].log_probs).subspan(i * vocab, vocab);
    double sum = 0;
    for (const float v : log_probs) sum += std::exp(v);
    EXPECT_NEAR(sum, 1.0, 1e-5);
    const ScoredRow& row = passes[0].rows[i];
    if (row.has_next) {
      EXPECT_NEAR(log_probs[static_cast<std::size_t>(ids[i + 1])], row.next_log_prob, 1e-5);
    }
    EXPECT_NEAR(*std::max_element(log_probs.begin(), log_probs.end()), row.top_log_probs[0], 1e-5);
  }
}

TEST(Scorer, EndsBeforeTheTextDoesWhereAsked) {
  const auto engine = open_or_fail(fenced("cpu"));
  const auto ids = some_tokens(20);
  const auto passes = all_passes(*engine, {.ids = ids, .end = 19}, false);
  ASSERT_EQ(passes.size(), 1u);
  ASSERT_EQ(passes[0].rows.size(), 19u);
  EXPECT_TRUE(passes[0].rows.back().has_next);
  EXPECT_TRUE(passes[0].log_probs.empty() && passes[0].streams.empty());
}

TEST(Evaluate, ABackendAgainstItselfHasNoDrift) {
  const auto ours = open_or_fail(fenced("cpu")), theirs = open_or_fail(fenced("cpu"));
  const GoldenRow row{.name = "text", .ids = some_tokens(50)};
  const auto report = evaluate(*ours, {&row, 1}, {.against = theirs.get()});
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->positions, 49);
  const ComparisonReport& both = *report->against;
  EXPECT_EQ(both.positions, 49);
  EXPECT_EQ(both.top1, 1.0);
  EXPECT_EQ(both.kl_max, 0.0);
  EXPECT_EQ(*both.perplexity, *both.perplexity_theirs);
  EXPECT_EQ(both.drift.size(), static_cast<std::size_t>(ours->spec().n_layers) + 1);
  for (const Drift& layer : both.drift) EXPECT_EQ(layer.largest, 0.0);
}

// The exact path is off by roundings of fp32, eight-bit activations by far more, and neither before
// the first product.
TEST(Evaluate, DriftTellsEightBitActivationsFromExactOnes) {
  const auto reference = open_or_fail(pocket_options("reference"));
  EngineOptions exact = pocket_options("cpu");
  exact.backend_options.activations = Activations::kF32;
  const auto close = open_or_fail(exact), coarse = open_or_fail(pocket_options("cpu"));
  const GoldenRow row{.name = "text", .ids = some_tokens(12)};
  const auto of = [&](Engine& engine) {
    return *evaluate(engine, {&row, 1}, {.against = reference.get()})->against;
  };
  const ComparisonReport a = of(*close), b = of(*coarse);
  EXPECT_EQ(a.drift.front().largest, 0.0);
  EXPECT_EQ(b.drift.front().largest, 0.0);
  for (std::size_t i = 1; i < a.drift.size(); ++i) {
    EXPECT_GT(a.drift[i].largest, 0.0);
    EXPECT_LT(a.drift[i].largest, 1e-3);
    EXPECT_GT(b.drift[i].mean, 2 * a.drift[i].mean);
    EXPECT_LE(b.drift[i].mean, b.drift[i].largest);
  }
}

TEST(Evaluate, ATextTooShortToPredictAnythingIsRefused) {
  const auto tokenizer = Tokenizer::load(pocket_folder() / "tokenizer.json");
  const Path file = Path(::testing::TempDir()) / ("one_token." + std::to_string(::getpid()));
  std::ofstream(file) << "a";
  EXPECT_THAT(read_text_row(file, *tokenizer, 192).error().message,
              HasSubstr("1 tokens, expected 2 or more"));
  std::ofstream(file) << "What is the capital of France?";
  EXPECT_EQ(read_text_row(file, *tokenizer, 3)->ids.size(), 4u);
  EXPECT_GT(read_text_row(file, *tokenizer, 0)->ids.size(), 4u);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace lily
