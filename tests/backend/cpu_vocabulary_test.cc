// score, choose and route on the CPU: the reference's answers, the same for any number of threads,
// at the size of the real vocabulary; and the draws follow the distribution that they are drawn
// from.
#include <cmath>
#include <limits>

#include "backend/cpu/sort_key.h"
#include "tests/backend/cpu.h"

namespace lily::cases {
namespace {

constexpr int kRealVocab = 248320, kRealUsed = 248077;

void expect_scores(const ScoreCase& c) {
  const Outputs got = run_everywhere(c), want = run(reference(), c);
  EXPECT_EQ(got.at("top_ids"), want.at("top_ids"));
  EXPECT_EQ(got.at("not_finite"), want.at("not_finite"));
  // Chunks of 2,048 in 16 lanes: (128 + 4 + 1) u on the sum, then one rounding of a number
  // below 32.
  const double bound = 133 * kUnit + 32 * kUnit;
  for (const char* name : {"target_log_prob", "top_log_probs"})
    EXPECT_LE(largest_error(got.at(name), want.at(name)), bound) << name;
  EXPECT_LE(largest_error(got.at("kl"), want.at("kl")), bound + 8 * kUnit);
}

TEST(CpuScore, IsNearTheReference) {
  for (int seed = 0; seed < 10; ++seed) {
    Random random(static_cast<std::uint64_t>(40 + seed));
    expect_scores(random_score(random, 1 + seed % 4, 1003, 1000 - seed));
  }
  Random random(50);
  expect_scores(random_score(random, 35, 2100, 2049));
}

TEST(CpuScore, EqualLogitsRankByLowerId) {
  Random random(51);
  ScoreCase c = random_score(random, 2, 3000, 3000);
  for (float& x : c.logits) x = std::round(x);
  c.n_top = kMaxTopLogProbs;
  expect_scores(c);
}

TEST(CpuScore, NamesRowsThatAreNotFinite) {
  Random random(52);
  ScoreCase c = random_score(random, 3, 1003, 1000);
  c.n_top = 3;
  c.logits[1003 + 999] = std::numeric_limits<float>::infinity();
  c.logits[2 * 1003 + 4] = std::nanf("");
  c.logits[1001] = std::nanf("");  // Padding counts for nothing.
  for (const int threads : {1, 2}) {
    const Outputs got = run(cpu_backend("", threads), c);
    EXPECT_EQ(got.at("not_finite"), (std::vector<float>{0, 1, 1}));
    EXPECT_TRUE(std::isfinite(got.at("kl")[0]));
    EXPECT_TRUE(std::isnan(got.at("kl")[1]) && std::isnan(got.at("kl")[2]));
    EXPECT_EQ(got.at("top_ids")[3], -1.0f);
  }
}

// choose writes what the reference writes; log-probabilities within the bound of score.
void expect_choices(const ChooseCase& c) {
  const Outputs want = run(reference(), c), got = run_everywhere(c);
  for (const auto& [name, values] : want) {
    if (name.find("log_prob") == std::string::npos)
      EXPECT_EQ(got.at(name), values) << name;
    else
      EXPECT_LE(largest_error(got.at(name), values), 165 * kUnit) << name;
  }
}

TEST(CpuChoose, ChoosesWhatTheReferenceChooses) {
  for (int seed = 0; seed < 60; ++seed) {
    Random random(static_cast<std::uint64_t>(60 + seed));
    expect_choices(random_choose(random, 1 + seed % 5, 1003, 900 + seed));
  }
}

TEST(CpuChoose, ChoosesTheSameOverTheRealVocabulary) {
  for (int seed = 0; seed < 3; ++seed) {
    Random random(static_cast<std::uint64_t>(130 + seed));
    ChooseCase c = random_choose(random, 2, kRealVocab, kRealUsed);
    for (float& x : c.logits) x = x * 2.5f;
    const Outputs want = run(reference(), c), got = run(cpu_backend(), c);
    for (const char* name : {"token", "top_ids", "not_finite"})
      EXPECT_EQ(got.at(name), want.at(name)) << name;
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

TEST(CpuChoose, GreedyTakesTheLowerIdOfATie) {
  std::vector<float> logits(5000, 1.0f);
  logits[4100] = logits[2047] = logits[4999] = 3.0f;
  EXPECT_EQ(run(cpu_backend(), plain_case(logits)).at("token")[0], 2047.0f);
  logits[2047] = -0.0f;
  EXPECT_EQ(run(cpu_backend(), plain_case(logits)).at("token")[0], 4100.0f);
}

TEST(CpuChoose, FlatDistributionsAreRankedToTheirEnd) {
  for (const float temperature : {1e-6f, 0.3f, 1.0f, 1e6f}) {
    ChooseCase c = plain_case(std::vector<float>(9000, 2.0f));
    c.rows[0].control.temperature = temperature;
    for (std::uint64_t draw = 0; draw < 4; ++draw) {
      c.rows[0].control.draw = draw;
      EXPECT_EQ(run(cpu_backend(), c).at("token"), run(reference(), c).at("token"));
    }
  }
}

TEST(CpuChoose, AMaskThatAllowsNothingChoosesNothing) {
  ChooseCase c = plain_case(std::vector<float>(100, 1.0f));
  c.rows[0].allowed.assign(4, 0);
  for (const float temperature : {0.0f, 1.0f}) {
    c.rows[0].control.temperature = temperature;
    EXPECT_EQ(run(cpu_backend(), c).at("token")[0], -1.0f);
  }
}

// Chi-square over the eight likeliest of a known distribution and the rest: 8 degrees of freedom, 1
// in 1,000 beyond 26.12.
TEST(CpuChoose, DrawsFollowTheDistribution) {
  constexpr int kVocab = 4000, kDraws = 6000, kRows = 100, kCells = 8;
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
    const Outputs drawn = run(cpu_backend(), c);
    for (const float token : drawn.at("token")) {
      ++seen[std::min<std::size_t>(static_cast<std::size_t>(token), kCells)];
    }
  }
  double chi_square = 0.0;
  for (std::size_t i = 0; i <= kCells; ++i)
    chi_square += (seen[i] - expected[i]) * (seen[i] - expected[i]) / expected[i];
  EXPECT_LT(chi_square, 26.12);
}

TEST(CpuSortKey, SortsLogitsDownAndIdsUp) {
  const std::vector<float> down = {3.4e38f, 2.0f, 1e-45f, 0.0f, -1e-45f, -2.0f, -3.4e38f};
  for (std::size_t i = 0; i < down.size(); ++i) {
    EXPECT_EQ(cpu::logit_of(cpu::sort_key(down[i], 7)), down[i]);
    EXPECT_EQ(cpu::id_of(cpu::sort_key(down[i], 248319)), 248319);
    EXPECT_LT(cpu::sort_key(down[i], 7), cpu::sort_key(down[i], 8));
    if (i > 0) {
      EXPECT_LT(cpu::sort_key(down[i - 1], 9), cpu::sort_key(down[i], 1));
    }
  }
  EXPECT_EQ(cpu::sort_key(-0.0f, 3), cpu::sort_key(0.0f, 3));
}

TEST(CpuRoute, ChoosesWhatTheReferenceChooses) {
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    for (const auto& pieces : typical_passes()) {
      Random random(150);
      const auto c = random_route(random, spec, make_pass(spec, pieces, {}, random));
      const Outputs got = run_everywhere(c), want = run(reference(), c);
      EXPECT_EQ(got.at("experts"), want.at("experts"));
      // Logits of up to 256 products of norm about 4 have an error of some 1e-5; exp makes it
      // relative.
      EXPECT_LE(relative_error(got.at("expert_weights"), want.at("expert_weights")), 256 * kUnit);
      EXPECT_LE(relative_error(got.at("shared_weight"), want.at("shared_weight")), 256 * kUnit);
    }
  }
}

TEST(CpuRoute, EqualLogitsChooseTheLowerIds) {
  Random random(151);
  const auto spec = pocket_spec();
  auto c = random_route(random, spec, make_pass(spec, {{.n_rows = 2}}, {}, random));
  std::fill(c.h.begin(), c.h.end(), 0.0f);
  const Outputs got = run(cpu_backend(), c);
  EXPECT_EQ(got.at("experts"), (std::vector<float>{0, 1, 2, 3, 0, 1, 2, 3}));
  for (const float w : got.at("expert_weights")) EXPECT_EQ(w, 0.25f);
}

}  // namespace
}  // namespace lily::cases
