// Figures of two engines, by hand.
#include "engine/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace lily {
namespace {

using ::testing::HasSubstr;

// Two rows of two dims and two ids; the second has nothing behind it.
ScoredPass pass_of(std::vector<float> probabilities, std::vector<float> embedding,
                   std::vector<float> layer) {
  ScoredPass pass{.first = 7};
  for (const float p : probabilities) pass.log_probs.push_back(std::log(p));
  for (std::size_t i = 0; i < 2; ++i) {
    const bool second = probabilities[2 * i + 1] > probabilities[2 * i];
    pass.rows.push_back({.has_next = i == 0,
                         .next_log_prob = i == 0 ? pass.log_probs[0] : 0,
                         .top_ids = {second},
                         .top_log_probs = {}});
  }
  pass.streams = {std::move(embedding), std::move(layer)};
  return pass;
}

TEST(Comparison, FiguresByHand) {
  const auto theirs = pass_of({0.5, 0.5, 0.25, 0.75}, {3, 4, 0, 1}, {3, 4, 0, 1});
  const auto ours = pass_of({0.25, 0.75, 0.25, 0.75}, {3, 4, 0, 1}, {3, 4.5, 0, 0.5});
  Comparison comparison;
  ASSERT_TRUE(comparison.add(ours, theirs, 2).has_value());
  const auto report = comparison.report();
  EXPECT_EQ(report.positions, 2);
  EXPECT_DOUBLE_EQ(report.top1, 0.5);  // At even odds the lower id is theirs.
  const double kl = 0.5 * std::log(2.0) + 0.5 * std::log(0.5 / 0.75);
  EXPECT_NEAR(report.kl_max, kl, 1e-7);
  EXPECT_NEAR(report.kl_mean, kl / 2, 1e-7);
  EXPECT_NEAR(*report.perplexity, 4.0, 1e-6);
  EXPECT_NEAR(*report.perplexity_theirs, 2.0, 1e-6);
  ASSERT_EQ(report.drift.size(), 2u);
  EXPECT_EQ(report.drift[0].largest, 0.0);
  EXPECT_DOUBLE_EQ(report.drift[1].largest, 0.5);           // 0.5 / 1
  EXPECT_DOUBLE_EQ(report.drift[1].mean, (0.1 + 0.5) / 2);  // 0.5 / 5, 0.5 / 1
  EXPECT_DOUBLE_EQ(perplexity_delta_percent(4.0, 2.0), 100.0);
}

TEST(Comparison, WhatCannotBeComparedIsNamed) {
  const auto good = pass_of({0.5, 0.5, 0.25, 0.75}, {3, 4, 0, 1}, {3, 4, 0, 1});
  const auto bad = pass_of({0.5, 0.5, 0.25, 0.75}, {3, 4, 0, 1}, {3, 4, std::nanf(""), 1});
  Comparison comparison;
  const auto added = comparison.add(bad, good, 2);
  EXPECT_EQ(added.error().code, ErrorCode::kNotFinite);
  EXPECT_THAT(added.error().message, HasSubstr("position 8, after layer 0"));
}

}  // namespace
}  // namespace lily
