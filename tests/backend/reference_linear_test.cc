// Norms and products of the reference backend against sums written out entry by entry.
#include <gtest/gtest.h>

#include "tests/backend/reference.h"

namespace lily::cases {
namespace {

std::vector<float> to_floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

void append(std::vector<float>& all, const std::vector<double>& row) {
  all.insert(all.end(), row.begin(), row.end());
}

// rmsnorm(h; norm) W^T of every row.
std::vector<float> projected(const std::vector<float>& h, const std::vector<float>& norm,
                             const Matrix& w, double eps) {
  std::vector<float> out;
  for (std::size_t t = 0; t < h.size() / norm.size(); ++t)
    append(out, times_matrix(normed(h, t, norm, eps), w, 0, w.rows));
  return out;
}

class ReferenceLinear : public ::testing::TestWithParam<ModelSpec (*)()> {
 protected:
  ModelSpec spec_ = GetParam()();
  Random random_{11};
  PassControl control_ = make_pass(
      spec_, {{.n_rows = 2}, {.n_rows = 3, .sequence = 1, .state_out = 1}}, {4, 0, 2}, random_);
};
INSTANTIATE_TEST_SUITE_P(Sizes, ReferenceLinear, ::testing::Values(pocket_spec, odd_spec));

TEST_P(ReferenceLinear, EmbedIsTheTablesRow) {
  const auto c = random_embed(random_, spec_, control_);
  std::vector<float> want;
  for (int t = 0; t < control_.n_rows; ++t) {
    for (int i = 0; i < spec_.hidden; ++i)
      want.push_back(static_cast<float>(c.table.at(control_.tokens[t], i)));
  }
  EXPECT_EQ(run(reference(), c).at("h"), want);
}

TEST_P(ReferenceLinear, GdnProjectIsFourProductsOfTheNormedRow) {
  const auto c = random_gdn_project(random_, spec_, control_);
  const auto out = run(reference(), c);
  EXPECT_LE(relative_error(out.at("qkv"), projected(c.h, c.norm, c.in_qkv, spec_.rms_eps)),
            kFewRoundings);
  EXPECT_LE(relative_error(out.at("z"), projected(c.h, c.norm, c.in_z, spec_.rms_eps)),
            kFewRoundings);
  EXPECT_LE(relative_error(out.at("b"), projected(c.h, c.norm, c.in_b, spec_.rms_eps)),
            kFewRoundings);
  EXPECT_LE(relative_error(out.at("a"), projected(c.h, c.norm, c.in_a, spec_.rms_eps)),
            kFewRoundings);
}

TEST_P(ReferenceLinear, AttentionProjectIsThreeProductsOfTheNormedRow) {
  const auto c = random_attention_project(random_, spec_, control_);
  const auto out = run(reference(), c);
  EXPECT_LE(relative_error(out.at("q_gate"), projected(c.h, c.norm, c.in_q, spec_.rms_eps)),
            kFewRoundings);
  EXPECT_LE(relative_error(out.at("k"), projected(c.h, c.norm, c.in_k, spec_.rms_eps)),
            kFewRoundings);
  EXPECT_LE(relative_error(out.at("v"), projected(c.h, c.norm, c.in_v, spec_.rms_eps)),
            kFewRoundings);
}

TEST_P(ReferenceLinear, ProjectResidualAddsTheProduct) {
  const auto c = random_project_residual(random_, spec_, control_);
  std::vector<float> want;
  for (int t = 0; t < control_.n_rows; ++t) {
    const auto x = rows_of(c.x, control_.n_rows, t, 1);
    auto row = times_matrix({x.begin(), x.end()}, c.weight, 0, spec_.hidden);
    for (std::size_t i = 0; i < row.size(); ++i)
      row[i] += c.h[static_cast<std::size_t>(t) * row.size() + i];
    append(want, row);
  }
  EXPECT_LE(relative_error(run(reference(), c).at("h"), want), kOneRounding);
}

TEST_P(ReferenceLinear, HeadTakesTheWantedRowsInTheirOrder) {
  const auto c = random_head(random_, spec_, control_);
  const auto out = run(reference(), c);
  std::vector<float> states, logits;
  for (const std::size_t t : {4u, 0u, 2u}) {
    const auto state = normed(c.h, t, c.norm, spec_.rms_eps);
    append(states, state);
    append(logits, times_matrix(state, c.lm_head, 0, spec_.vocab_rows));
  }
  EXPECT_LE(relative_error(out.at("states"), states), kOneRounding);
  EXPECT_LE(relative_error(out.at("logits"), logits), kFewRoundings);
}

TEST(ReferenceHead, WorksInBlocksOfRows) {
  const ModelSpec spec = odd_spec();
  Random random(5);
  std::vector<int> rows;
  for (int i = 0; i < 70; ++i) rows.push_back(69 - i);
  const auto c = random_head(random, spec, make_pass(spec, {{.n_rows = 70}}, rows, random));
  const auto out = run(reference(), c);
  for (const int row : {0, 31, 32, 63, 64, 69}) {
    const auto state = normed(c.h, static_cast<std::size_t>(69 - row), c.norm, spec.rms_eps);
    EXPECT_LE(relative_error(rows_of(out.at("logits"), 70, row, 1),
                             to_floats(times_matrix(state, c.lm_head, 0, spec.vocab_rows))),
              kFewRoundings);
    EXPECT_LE(relative_error(rows_of(out.at("states"), 70, row, 1), to_floats(state)),
              kOneRounding);
  }
}

TEST(ReferenceHead, EightBitMatricesAreReadToo) {
  const ModelSpec spec = odd_spec();
  Random random(6);
  auto c = random_head(random, spec, make_pass(spec, {{.n_rows = 2}}, {1}, random));
  c.lm_head = random_matrix(random, spec.vocab_rows, spec.hidden, 8);
  const auto want =
      times_matrix(normed(c.h, 1, c.norm, spec.rms_eps), c.lm_head, 0, spec.vocab_rows);
  EXPECT_LE(relative_error(run(reference(), c).at("logits"), to_floats(want)), kFewRoundings);
}

TEST(ReferenceDeathTest, AnotherWeightLayoutIsABug) {
  const ModelSpec spec = odd_spec();
  Random random(7);
  const PassControl control = make_pass(spec, {{.n_rows = 1}}, {}, random);
  QuantMatrix table{};
  table.rows = table.cols = 64;
  table.bits = 4;
  table.layout = static_cast<std::uint32_t>(WeightLayout::kInterleaved16);
  float h[64];
  EXPECT_DEATH(reference().embed({&control, table, h}), "kRowMajor");
}

}  // namespace
}  // namespace lily::cases
