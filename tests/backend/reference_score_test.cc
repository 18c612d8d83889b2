// score: log-probabilities, the largest entries, divergence and rows that are not finite.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/backend/reference.h"

namespace lily::cases {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Probabilities of the first vocab_used logits of a row.
std::vector<long double> probabilities(const ScoreCase& c, int row) {
  std::vector<long double> p;
  long double sum = 0.0L;
  for (int i = 0; i < c.vocab_used; ++i) {
    p.push_back(std::exp(
        static_cast<long double>(c.logits[static_cast<std::size_t>(row * c.vocab_rows + i)])));
    sum += p.back();
  }
  for (auto& x : p) x /= sum;
  return p;
}

ScoreCase hand_made(std::vector<float> logits, int n_top) {
  ScoreCase c;
  c.n_rows = 1;
  c.vocab_rows = c.vocab_used = static_cast<int>(logits.size());
  c.n_top = n_top;
  c.logits = std::move(logits);
  return c;
}

TEST(ReferenceScore, AgreesWithProbabilitiesInSeveralBlocks) {
  Random random(1);
  auto c = random_score(random, 70, 130, 117);
  c.n_top = 5;
  for (std::size_t i = 117; i < c.logits.size(); i += 130)
    c.logits[i] = 1e30f;  // Padding does not count.
  const auto out = run(reference(), c);
  for (int row = 0; row < 70; ++row) {
    const auto p = probabilities(c, row);
    const auto r = static_cast<std::size_t>(row);
    const int target = c.targets[r];
    EXPECT_NEAR(out.at("target_log_prob")[r],
                target < 0 ? 0.0L : std::log(p[static_cast<std::size_t>(target)]), 1e-5);
    long double kl = 0.0L;
    for (std::size_t i = 0; i < 117; ++i) {
      const long double lq = c.reference_log_probs[r * 117 + i];
      kl += std::exp(lq) * (lq - std::log(p[i]));
    }
    EXPECT_NEAR(out.at("kl")[r], kl, 1e-6);
    for (std::size_t i = 0; i < 5; ++i) {
      const auto id = static_cast<std::size_t>(out.at("top_ids")[r * 5 + i]);
      EXPECT_NEAR(out.at("top_log_probs")[r * 5 + i], std::log(p[id]), 1e-5);
      EXPECT_EQ(std::count_if(p.begin(), p.end(), [&](long double x) { return x > p[id]; }),
                static_cast<std::ptrdiff_t>(i));
    }
    EXPECT_EQ(out.at("not_finite")[r], 0.0f);
  }
}

TEST(ReferenceScore, EqualLogitsListTheLowerIdFirst) {
  const auto out = run(reference(), hand_made({1.0f, 3.0f, 1.0f, 3.0f, 1.0f}, 4));
  EXPECT_EQ(out.at("top_ids"), (std::vector<float>{1, 3, 0, 2}));
}

TEST(ReferenceScore, TheDivergenceOfARowFromItselfIsZero) {
  auto c = hand_made({0.0f, 0.0f, -1e30f}, 0);
  c.reference_log_probs = {-std::log(2.0f), -std::log(2.0f), -kInfinity};
  EXPECT_NEAR(run(reference(), c).at("kl")[0], 0.0, 1e-7);
}

TEST(ReferenceScore, WhatIsNotAskedForIsNotWritten) {
  const auto out = run(reference(), hand_made({1.0f, 2.0f}, 0));
  EXPECT_EQ(out.at("kl"), std::vector<float>{kUntouched});
  EXPECT_EQ(out.at("target_log_prob"), std::vector<float>{kUntouched});
}

TEST(ReferenceScore, MarksRowsThatAreNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    auto c = hand_made({1.0f, 2.0f, bad, 4.0f, bad, 6.0f}, 2);
    c.n_rows = 2;
    c.vocab_rows = 3;
    c.vocab_used = 2;
    c.targets = {0, 0};
    c.reference_log_probs = {-0.7f, -0.7f, -0.7f, -0.7f};
    const auto out = run(reference(), c);
    EXPECT_EQ(out.at("not_finite"), (std::vector<float>{0, 1}));  // Row 0's lies in the padding.
    EXPECT_EQ(out.at("top_ids"), (std::vector<float>{1, 0, -1, -1}));
    EXPECT_TRUE(std::isfinite(out.at("target_log_prob")[0]) &&
                std::isnan(out.at("target_log_prob")[1]));
    EXPECT_TRUE(std::isfinite(out.at("kl")[0]) && std::isnan(out.at("kl")[1]));
  }
}

}  // namespace
}  // namespace lily::cases
