// score and choose on the GPU backend: the reference's answers, at the size of the real vocabulary
// too, the same bits in every order of lanes; and the draws follow the distribution that they are
// drawn from.
#include <cmath>
#include <limits>

#include "tests/backend/gpu/gpu.h"

namespace lily::cases {
namespace {

constexpr int kRealVocab = 248320, kRealUsed = 248077;

// Sums of 1,024 exponentials in 256 threads, then of up to 256 chunks: (4 + 13 + 13) u on the sum,
// 2 u from exp and log each; two roundings of numbers below 32.
constexpr double kLogBound = (34 + 64) * kUnit;

void expect_scores(const ScoreCase& c) {
  const Outputs got = run_in_every_order(c), want = run(reference(), c);
  EXPECT_EQ(got.at("top_ids"), want.at("top_ids"));
  EXPECT_EQ(got.at("not_finite"), want.at("not_finite"));
  for (const char* name : {"target_log_prob", "top_log_probs"})
    EXPECT_LE(largest_error(got.at(name), want.at(name)), kLogBound) << name;
  // Every term of the divergence has the error of a log-probability, weighed by p.
  EXPECT_LE(largest_error(got.at("kl"), want.at("kl")), kLogBound + 64 * kUnit);
}

TEST(GpuScore, IsNearTheReference) {
  for (int seed = 0; seed < 6; ++seed) {
    Random random(static_cast<std::uint64_t>(40 + seed));
    expect_scores(random_score(random, 1 + seed % 4, 1003, 1000 - seed));
  }
  Random random(50);
  expect_scores(random_score(random, 35, 2100, 2049));
}

TEST(GpuScore, EqualLogitsRankByLowerId) {
  Random random(51);
  ScoreCase c = random_score(random, 2, 3000, 3000);
  for (float& x : c.logits) x = std::round(x);
  c.n_top = kMaxTopLogProbs;
  expect_scores(c);
}

TEST(GpuScore, NamesRowsThatAreNotFinite) {
  Random random(52);
  ScoreCase c = random_score(random, 3, 1003, 1000);
  c.n_top = 3;
  c.logits[1003 + 999] = std::numeric_limits<float>::infinity();
  c.logits[2 * 1003 + 4] = std::nanf("");
  c.logits[1001] = std::nanf("");  // Padding counts for nothing.
  const Outputs got = run(gpu_backend(), c);
  EXPECT_EQ(got.at("not_finite"), (std::vector<float>{0, 1, 1}));
  EXPECT_TRUE(std::isfinite(got.at("kl")[0]) && std::isfinite(got.at("target_log_prob")[0]));
  for (const std::size_t row : {1u, 2u}) {
    EXPECT_TRUE(std::isnan(got.at("kl")[row]) && std::isnan(got.at("target_log_prob")[row]));
    EXPECT_TRUE(std::isnan(got.at("top_log_probs")[3 * row + 2]));
    EXPECT_EQ(got.at("top_ids")[3 * row], -1.0f);
  }
}

TEST(GpuScore, WantsNothingThatIsNotAsked) {
  Random random(53);
  ScoreCase c = random_score(random, 2, 1003, 1003);
  c.n_top = 0;
  c.targets.clear();
  c.reference_log_probs.clear();
  const Outputs got = run(gpu_backend(), c);
  EXPECT_EQ(got.at("not_finite"), (std::vector<float>{0, 0}));
  EXPECT_EQ(got.at("kl"), (std::vector<float>{kUntouched, kUntouched}));
  EXPECT_EQ(got.at("target_log_prob"), (std::vector<float>{kUntouched, kUntouched}));
}

// choose writes what the reference writes; log-probabilities within the bound of score.
void expect_choices(const Outputs& got, const ChooseCase& c) {
  for (const auto& [name, values] : run(reference(), c)) {
    if (name.find("log_prob") == std::string::npos)
      EXPECT_EQ(got.at(name), values) << name;
    else
      EXPECT_LE(largest_error(got.at(name), values), kLogBound) << name;
  }
}

TEST(GpuChoose, ChoosesWhatTheReferenceChooses) {
  for (int seed = 0; seed < 60; ++seed) {
    Random random(static_cast<std::uint64_t>(60 + seed));
    const auto c = random_choose(random, 1 + seed % 5, 1003, 900 + seed);
    expect_choices(seed < 6 ? run_in_every_order(c) : run(gpu_backend(), c), c);
  }
  Random random(59);
  const auto c = random_choose(random, 34, 1003, 1003);  // Two blocks.
  expect_choices(run(gpu_backend(), c), c);
}

TEST(GpuChoose, ChoosesTheSameOverTheRealVocabulary) {
  for (int seed = 0; seed < 3; ++seed) {
    Random random(static_cast<std::uint64_t>(130 + seed));
    ChooseCase c = random_choose(random, 1, kRealVocab, kRealUsed);
    for (float& x : c.logits) x = x * 2.5f;
    c.rows[0].control.top_k = 40;
    expect_choices(run(gpu_backend(), c), c);
  }
}

ChooseCase plain_case(std::vector<float> logits) {
  ChooseCase c{.vocab_rows = static_cast<int>(logits.size()),
               .vocab_used = static_cast<int>(logits.size()),
               .logits = std::move(logits),
               .rows = {Sampling{}}};
  c.rows[0].generated.assign(c.logits.size(), 0);
  c.rows[0].in_prompt.assign(c.logits.size(), 0);
  return c;
}

TEST(GpuChoose, GreedyTakesTheLowerIdOfATie) {
  std::vector<float> logits(5000, 1.0f);
  logits[4100] = logits[2047] = logits[4999] = 3.0f;
  EXPECT_EQ(run(gpu_backend(), plain_case(logits)).at("token")[0], 2047.0f);
  logits[2047] = -0.0f;
  EXPECT_EQ(run(gpu_backend(), plain_case(logits)).at("token")[0], 4100.0f);
}

// More entries than the walk keeps, in up to three walks.
TEST(GpuChoose, LongListsAreWalkedAgain) {
  Random random(140);
  for (int draw = 0; draw < 4; ++draw) {
    ChooseCase c = plain_case(random.floats(1500, 0.0f, 0.5f));
    auto& control = c.rows[0].control;
    control.temperature = 0.7f;
    control.top_k = 900;
    control.top_p = 0.8f;
    control.min_p = 0.1f;
    control.seed = 3;
    control.draw = static_cast<std::uint64_t>(draw);
    expect_choices(run(gpu_backend(), c), c);
  }
}

// Cuts and draws behind the entries that are taken one by one. Sums of 2^18 equal weights are
// exact in fp32, products with u and top_p are rounded to 2^-6.
TEST(GpuChoose, FlatDistributionsOverTheRealVocabularyAreCutAndDrawn) {
  ChooseCase c = plain_case(std::vector<float>(kRealUsed, -0.5f));
  for (int i = 0; i < 100; ++i) c.logits[static_cast<std::size_t>(2400 * i)] = 0.25f;
  auto& control = c.rows[0].control;
  control.temperature = 1e3f;
  control.seed = 5;
  for (const float top_p : {1.0f, 0.9f}) {
    for (const int top_k : {0, 150000}) {
      control.top_p = top_p;
      control.top_k = top_k;
      ++control.draw;
      EXPECT_NEAR(run(gpu_backend(), c).at("token")[0], run(reference(), c).at("token")[0], 1.0)
          << top_p << " " << top_k;
    }
  }
}

TEST(GpuChoose, FlatDistributionsAreRankedToTheirEnd) {
  for (const float temperature : {1e-6f, 1.0f, 1e6f}) {
    ChooseCase c = plain_case(std::vector<float>(1500, 2.0f));
    c.rows[0].control.temperature = temperature;
    for (std::uint64_t draw = 0; draw < 3; ++draw) {
      c.rows[0].control.draw = draw;
      EXPECT_EQ(run(gpu_backend(), c).at("token"), run(reference(), c).at("token"));
    }
  }
}

TEST(GpuChoose, AMaskThatAllowsNothingChoosesNothing) {
  ChooseCase c = plain_case(std::vector<float>(100, 1.0f));
  c.rows[0].allowed.assign(4, 0);
  for (const float temperature : {0.0f, 1.0f}) {
    c.rows[0].control.temperature = temperature;
    const Outputs got = run(gpu_backend(), c);
    EXPECT_EQ(got.at("token")[0], -1.0f);
    EXPECT_EQ(got.at("not_finite")[0], 0.0f);
    EXPECT_EQ(got.at("next_tokens")[0], 0.0f);
  }
}

TEST(GpuChoose, NamesRowsThatAreNotFinite) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    ChooseCase c = plain_case(std::vector<float>(1200, 1.0f));
    c.logits[1100] = bad;
    c.rows[0].control.n_top = 4;
    const Outputs got = run(gpu_backend(), c);
    EXPECT_EQ(got.at("token")[0], -1.0f);
    EXPECT_EQ(got.at("not_finite")[0], 1.0f);
    EXPECT_EQ(got.at("n_top")[0], 0.0f);
    EXPECT_EQ(got.at("generated"), std::vector<float>(1200, 0.0f));
  }
}

// A token may have several biases, and biases of ids that do not exist fall away.
TEST(GpuChoose, BiasesAreAddedInTheirOrder) {
  ChooseCase c = plain_case(std::vector<float>(1100, 0.0f));
  c.rows[0].bias = {{7, 1e8f}, {7, 1.0f}, {7, -1e8f}, {1050, 0.5f}, {-1, 9.0f}, {1100, 9.0f}};
  expect_choices(run(gpu_backend(), c), c);
  EXPECT_EQ(run(gpu_backend(), c).at("token")[0], 1050.0f);
}

// Chi-square over the eight likeliest of a known distribution and the rest: 8 degrees of freedom, 1
// in 1,000 beyond 26.12.
TEST(GpuChoose, DrawsFollowTheDistribution) {
  constexpr int kVocab = 1200, kDraws = 960, kRows = 32, kCells = 8;
  std::vector<float> logits(kVocab);
  for (int i = 0; i < kVocab; ++i)
    logits[static_cast<std::size_t>(i)] =
        -0.7f * static_cast<float>(i % 50) - 0.5f * static_cast<float>(i / 50);
  ChooseCase c = plain_case(logits);
  c.rows[0].control.temperature = 1.3f;
  c.rows[0].control.seed = 20;
  for (int row = 1; row < kRows; ++row) {
    c.rows.push_back(c.rows[0]);
    c.logits.insert(c.logits.end(), logits.begin(), logits.end());
  }
  double total = 0.0;
  for (const float x : logits) total += std::exp(static_cast<double>(x) / 1.3);
  std::vector<double> expected(kCells + 1, kDraws), seen(kCells + 1, 0.0);
  for (std::size_t i = 0; i < kCells; ++i) {
    expected[i] = kDraws * std::exp(static_cast<double>(logits[i]) / 1.3) / total;
    expected[kCells] -= expected[i];
  }
  for (int draw = 0; draw < kDraws; draw += kRows) {
    for (int row = 0; row < kRows; ++row)
      c.rows[static_cast<std::size_t>(row)].control.draw = static_cast<std::uint64_t>(draw + row);
    const Outputs drawn = run(gpu_backend(), c);
    for (const float token : drawn.at("token"))
      ++seen[std::min<std::size_t>(static_cast<std::size_t>(token), kCells)];
  }
  double chi_square = 0.0;
  for (std::size_t i = 0; i <= kCells; ++i)
    chi_square += (seen[i] - expected[i]) * (seen[i] - expected[i]) / expected[i];
  EXPECT_LT(chi_square, 26.12);
}

#if !defined(LILY_GPU_TSAN)
TEST(GpuVocabulary, TouchesWhatItDeclares) {
  Random random(150);
  const auto chosen = random_choose(random, 3, 1003, 1001);
  expect_choices(run(observed_backend(), chosen), chosen);
  const auto scored = random_score(random, 3, 1003, 1001);
  EXPECT_EQ(run(observed_backend(), scored).at("top_ids"), run(reference(), scored).at("top_ids"));
}
#endif

}  // namespace
}  // namespace lily::cases
