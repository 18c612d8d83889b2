// Routing and experts of the reference backend against the textbook order: softmax over all, pick,
// renormalise, add up.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/backend/reference.h"

namespace lily::cases {
namespace {

double logistic(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

std::vector<double> row_of(const std::vector<float>& all, int n_rows, int row) {
  const auto row_floats = rows_of(all, n_rows, row, 1);
  return {row_floats.begin(), row_floats.end()};
}

class ReferenceExperts : public ::testing::TestWithParam<ModelSpec (*)()> {
 protected:
  ModelSpec spec_ = GetParam()();
  Random random_{21};
  PassControl control_ =
      make_pass(spec_, {{.n_rows = 4}, {.n_rows = 3, .sequence = 1, .state_out = 1}}, {}, random_);
};
INSTANTIATE_TEST_SUITE_P(Sizes, ReferenceExperts, ::testing::Values(pocket_spec, odd_spec));

// (probability among the chosen, id) by ascending id.
std::vector<std::pair<int, double>> routed(const RouteCase& c, const std::vector<double>& x) {
  auto p = times_matrix(x, c.router, 0, c.spec.n_experts);
  double sum = 0.0;
  for (double& value : p) sum += value = std::exp(value);
  std::vector<std::pair<double, int>> order;
  for (int e = 0; e < c.spec.n_experts; ++e)
    order.emplace_back(-p[static_cast<std::size_t>(e)] / sum, e);
  std::sort(order.begin(), order.end());
  order.resize(static_cast<std::size_t>(c.spec.n_chosen));
  double kept = 0.0;
  for (const auto& [minus_p, e] : order) kept -= minus_p;
  std::vector<std::pair<int, double>> chosen;
  for (const auto& [minus_p, e] : order) chosen.emplace_back(e, -minus_p / kept);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

TEST_P(ReferenceExperts, RouteChoosesTheLargestAndRenormalises) {
  const auto c = random_route(random_, spec_, control_);
  const auto out = run(reference(), c);
  for (int t = 0; t < control_.n_rows; ++t) {
    const auto x = normed(c.h, static_cast<std::size_t>(t), c.norm, spec_.rms_eps);
    EXPECT_LE(relative_error(rows_of(out.at("x"), control_.n_rows, t, 1), {x.begin(), x.end()}),
              kOneRounding);
    std::size_t i = static_cast<std::size_t>(t * spec_.n_chosen);
    for (const auto& [expert, weight] : routed(c, x)) {
      EXPECT_EQ(out.at("experts")[i], static_cast<float>(expert));
      EXPECT_NEAR(out.at("expert_weights")[i++], weight, 1e-6);
    }
    EXPECT_NEAR(out.at("shared_weight")[static_cast<std::size_t>(t)],
                logistic(times_matrix(x, c.shared_gate, 0, 1)[0]), 1e-6);
  }
}

TEST_P(ReferenceExperts, EqualLogitsGoToTheLowerIds) {
  auto c = random_route(random_, spec_, control_);
  const Matrix one = random_matrix(random_, 1, spec_.hidden, 8);
  c.router.codes.clear();
  c.router.scales.clear();
  c.router.biases.clear();
  for (int e = 0; e < spec_.n_experts; ++e) {
    c.router.codes.insert(c.router.codes.end(), one.codes.begin(), one.codes.end());
    c.router.scales.insert(c.router.scales.end(), one.scales.begin(), one.scales.end());
    c.router.biases.insert(c.router.biases.end(), one.biases.begin(), one.biases.end());
  }
  const auto out = run(reference(), c);
  for (std::size_t i = 0; i < out.at("experts").size(); ++i) {
    EXPECT_EQ(out.at("experts")[i],
              static_cast<float>(i % static_cast<std::size_t>(spec_.n_chosen)));
    EXPECT_FLOAT_EQ(out.at("expert_weights")[i], 1.0f / static_cast<float>(spec_.n_chosen));
  }
}

std::vector<float> activated(const std::vector<double>& x, const Matrix& gate, const Matrix& up,
                             int first, int width) {
  const auto g = times_matrix(x, gate, first, width), u = times_matrix(x, up, first, width);
  std::vector<float> act;
  for (std::size_t i = 0; i < g.size(); ++i)
    act.push_back(static_cast<float>(g[i] * logistic(g[i]) * u[i]));
  return act;
}

TEST_P(ReferenceExperts, UpIsSiluOfGateTimesUpOfEachChosenExpert) {
  const auto c = random_experts_up(random_, spec_, control_);
  const auto out = run(reference(), c);
  const int n = control_.n_rows, width = spec_.expert_width;
  for (int t = 0; t < n; ++t) {
    const auto x = row_of(c.x, n, t);
    for (int i = 0; i < spec_.n_chosen; ++i) {
      const int slot = t * spec_.n_chosen + i, expert = c.experts[static_cast<std::size_t>(slot)];
      EXPECT_LE(relative_error(rows_of(out.at("act"), n * spec_.n_chosen, slot, 1),
                               activated(x, c.gate, c.up, expert * width, width)),
                kOneRounding);
    }
    EXPECT_LE(relative_error(rows_of(out.at("shared_act"), n, t, 1),
                             activated(x, c.shared_gate, c.shared_up, 0, spec_.shared_width)),
              kOneRounding);
  }
}

TEST_P(ReferenceExperts, DownAddsTheWeightedExpertsAndTheSharedOne) {
  const auto c = random_experts_down(random_, spec_, control_);
  const auto out = run(reference(), c).at("h");
  const int n = control_.n_rows, n_slots = n * spec_.n_chosen;
  for (int t = 0; t < n; ++t) {
    auto want = row_of(c.h, n, t);
    const auto add = [&](const std::vector<double>& y, double weight) {
      for (std::size_t d = 0; d < want.size(); ++d) want[d] += weight * y[d];
    };
    for (int slot = t * spec_.n_chosen; slot < (t + 1) * spec_.n_chosen; ++slot) {
      const auto at = static_cast<std::size_t>(slot);
      add(times_matrix(row_of(c.act, n_slots, slot), c.down, c.experts[at] * spec_.hidden,
                       spec_.hidden),
          c.expert_weights[at]);
    }
    add(times_matrix(row_of(c.shared_act, n, t), c.shared_down, 0, spec_.hidden),
        c.shared_weight[static_cast<std::size_t>(t)]);
    EXPECT_LE(relative_error(rows_of(out, n, t, 1), {want.begin(), want.end()}), kOneRounding);
  }
}

}  // namespace
}  // namespace lily::cases
