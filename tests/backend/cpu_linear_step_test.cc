// The steps with matrices on the CPU backend: the reference's numbers within the bound of int8
// activations, or of fp32 ones, and the same bits for every instruction set, number of threads and
// company.
#include <cmath>

#include "tests/backend/cpu.h"

namespace lily::cases {
namespace {

// As cpu_backend(), with int8 activations.
Backend& int8_backend(const std::string& isa = "", int threads = 2) {
  static std::map<std::pair<std::string, int>, std::unique_ptr<Backend>> backends;
  auto& backend = backends[{isa, threads}];
  if (backend == nullptr) {
    auto opened = cpu::open({.threads = threads, .isa = isa});
    LILY_CHECK(opened.has_value() && (*opened)->prepare(largest_spec(), kMaxPassRows).has_value());
    backend = std::move(*opened);
  }
  return *backend;
}

// Rounding to 255 steps of the largest m of 64 is off by m / (254 sqrt 3) in the root mean square.
// For values uniform in [-m, m], whose own is m / sqrt 3, that is 1 / 254 of their norm; a product
// with weights that know nothing of the rounding keeps the ratio.
constexpr double kInt8Error = 1.0 / 254;
// Times norm weights uniform in [0.5, 1.5]: the largest grows by up to 1.5, the root mean square by
// sqrt(13 / 12).
constexpr double kNormedInt8Error = 1.45 / 254;
// silu(g) u: g enters with |g silu'(g) / silu(g)| = |1 + g (1 - sigmoid(g))|, at most 1.28 where
// silu is not next to nothing; u with 1.
constexpr double kGatedInt8Error = 2.28 / 254;
// fp32 against the reference: norms, then sums of some hundred terms.
constexpr double kExactError = 64 * kUnit;

class CpuLinearSteps : public ::testing::TestWithParam<ModelSpec (*)()> {
 protected:
  ModelSpec spec_ = GetParam()();
  Random random_{21};
  PassControl control_ = make_pass(spec_,
                                   {{.n_rows = 1},
                                    {.n_rows = 34, .sequence = 1, .state_out = 1},
                                    {.n_rows = 2, .sequence = 2, .state_out = 2}},
                                   {36, 0, 7, 12}, random_);

  // `outputs` of the case on the CPU against the reference, and the bits everywhere.
  template <typename Case>
  void expect_as_reference(const Case& c, const std::vector<std::string>& outputs,
                           double int8_error = kInt8Error) {
    const Outputs want = run(reference(), c), exact = run_everywhere(c),
                  int8 = run(int8_backend("portable", 1), c);
    for (const auto& name : outputs) {
      EXPECT_LE(relative_error(exact.at(name), want.at(name)), kExactError) << name;
      EXPECT_LE(relative_error(int8.at(name), want.at(name)), int8_error) << name;
    }
    for (const auto* kernels : cpu::supported_kernels()) {
      const std::string isa(kernels->name);
      for (const int threads : {1, 2, 3})
        EXPECT_EQ(run(int8_backend(isa, threads), c), int8) << isa << " " << threads;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Sizes, CpuLinearSteps, ::testing::Values(pocket_spec, odd_spec));

TEST_P(CpuLinearSteps, EmbedIsTheTablesRow) {
  const auto c = random_embed(random_, spec_, control_);
  EXPECT_EQ(run_everywhere(c), run(reference(), c));
}
TEST_P(CpuLinearSteps, GdnProject) {
  expect_as_reference(random_gdn_project(random_, spec_, control_), {"qkv", "z", "b", "a"},
                      kNormedInt8Error);
}
TEST_P(CpuLinearSteps, AttentionProject) {
  expect_as_reference(random_attention_project(random_, spec_, control_), {"q_gate", "k", "v"},
                      kNormedInt8Error);
}
TEST_P(CpuLinearSteps, ProjectResidual) {
  expect_as_reference(random_project_residual(random_, spec_, control_), {"h"});
}
TEST_P(CpuLinearSteps, RouteIsExactWithAnyActivations) {
  const auto c = random_route(random_, spec_, control_);
  const Outputs want = run(reference(), c), got = run_everywhere(c);
  EXPECT_EQ(got.at("experts"), want.at("experts"));
  for (const auto* name : {"x", "expert_weights", "shared_weight"}) {
    EXPECT_LE(relative_error(got.at(name), want.at(name)), kExactError) << name;
  }
  EXPECT_EQ(run(int8_backend(), c), got);
}
TEST_P(CpuLinearSteps, ExpertsUp) {
  expect_as_reference(random_experts_up(random_, spec_, control_), {"act", "shared_act"},
                      kGatedInt8Error);
}
TEST_P(CpuLinearSteps, ExpertsDown) {
  expect_as_reference(random_experts_down(random_, spec_, control_), {"h"});
}
TEST_P(CpuLinearSteps, Head) {
  expect_as_reference(random_head(random_, spec_, control_), {"logits", "states"},
                      kNormedInt8Error);
}

// Row `row` of the pass as a pass of its own.
PassControl alone(const PassControl& control, int row) {
  PassControl one{};
  one.n_rows = one.n_segments = 1;
  one.segments[0].n_rows = 1;
  one.tokens[0] = control.tokens[row];
  return one;
}

TEST_P(CpuLinearSteps, ARowsExpertsDoNotSeeOtherRows) {
  const auto up = random_experts_up(random_, spec_, control_);
  const auto down = random_experts_down(random_, spec_, control_);
  const int n = control_.n_rows;
  const auto k = std::ssize(up.experts) / n;
  const Outputs up_all = run(int8_backend(), up), down_all = run(int8_backend(), down);
  for (int row = 0; row < n; row += 5) {
    auto up_one = up;
    up_one.control = alone(control_, row);
    up_one.x = rows_of(up.x, n, row, 1);
    up_one.experts.assign(up.experts.begin() + row * k, up.experts.begin() + (row + 1) * k);
    EXPECT_EQ(run(int8_backend(), up_one).at("act"), rows_of(up_all.at("act"), n, row, 1)) << row;
    auto down_one = down;
    down_one.control = alone(control_, row);
    down_one.act = rows_of(down.act, n, row, 1);
    down_one.shared_act = rows_of(down.shared_act, n, row, 1);
    down_one.expert_weights = rows_of(down.expert_weights, n, row, 1);
    down_one.shared_weight = rows_of(down.shared_weight, n, row, 1);
    down_one.h = rows_of(down.h, n, row, 1);
    down_one.experts.assign(down.experts.begin() + row * k, down.experts.begin() + (row + 1) * k);
    EXPECT_EQ(run(int8_backend(), down_one).at("h"), rows_of(down_all.at("h"), n, row, 1)) << row;
  }
}

TEST_P(CpuLinearSteps, AProjectedRowDoesNotSeeOtherRows) {
  const auto c = random_project_residual(random_, spec_, control_);
  const int n = control_.n_rows;
  const Outputs all = run(int8_backend(), c);
  for (int row = 0; row < n; row += 4) {
    auto one = c;
    one.control = alone(control_, row);
    one.x = rows_of(c.x, n, row, 1);
    one.h = rows_of(c.h, n, row, 1);
    EXPECT_EQ(run(int8_backend(), one).at("h"), rows_of(all.at("h"), n, row, 1)) << row;
  }
}

}  // namespace
}  // namespace lily::cases
