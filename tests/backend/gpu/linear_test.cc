// The steps with matrices on the GPU backend: the reference's numbers within the bound of fp32
// sums, or of bf16 operands on tiles; a row's bits alone and in company; the same bits in every
// order of lanes and groups; nothing touched that was not declared.
#include <cmath>
#include <limits>

#include "tests/backend/gpu/gpu.h"

namespace lily::cases {
namespace {

// fp32 against the reference: norms, then sums of some hundred terms in 32 lanes.
constexpr double kExactError = 64 * kUnit;
// A rounding to bf16 is off by half a step, at most 2^-8 of the number; uniform within it that is
// 2^-8 / sqrt 3 in the root mean square. Both operands of a product, independent: sqrt 2 of it.
constexpr double kTileError = 0.8165 * kBf16Unit;
// silu(g) u: g enters with at most 1.28, as in the CPU's tests, u with 1.
constexpr double kGatedTileError = 2.28 * kTileError;
// Outputs of experts are rounded once more: sqrt 3 instead of sqrt 2.
constexpr double kExpertTileError = kBf16Unit;

ModelSpec wide_spec() {  // The 35B's widths, fewer of everything.
  ModelSpec spec = pocket_spec();
  spec.hidden = 2048;
  spec.expert_width = spec.shared_width = 512;
  spec.n_experts = 10;
  spec.n_chosen = 8;
  spec.n_q_heads = 2;
  spec.n_kv_heads = 1;
  spec.n_key_heads = 1;
  spec.n_value_heads = 2;
  spec.vocab_rows = 131;
  return spec;
}

PassControl pass_of(const ModelSpec& spec, int n_rows, const std::vector<int>& head_rows,
                    Random& random) {
  return make_pass(spec, {{.n_rows = n_rows}}, head_rows, random);
}

template <typename Case>
void expect_near(const Case& c, const std::vector<std::string>& outputs, double bound,
                 Backend& backend) {
  const Outputs want = run(reference(), c), got = run(backend, c);
  for (const auto& name : outputs)
    EXPECT_LE(relative_error(got.at(name), want.at(name)), bound) << name;
}

// ---- every step, at both sizes and in both forms

struct Form {
  ModelSpec (*spec)();
  int n_rows;
  bool few() const { return n_rows <= 8; }
  double error(double tiles) const { return few() ? kExactError : tiles; }
};

class GpuLinearSteps : public ::testing::TestWithParam<Form> {
 protected:
  Form form_ = GetParam();
  ModelSpec spec_ = form_.spec();
  Random random_{static_cast<std::uint64_t>(31 + form_.n_rows)};
  PassControl control_ = pass_of(spec_, form_.n_rows, {}, random_);

  template <typename Case>
  void expect_as_reference(const Case& c, const std::vector<std::string>& outputs, double tiles) {
    const Outputs want = run(reference(), c), got = run_in_every_order(c);
    for (const auto& name : outputs)
      EXPECT_LE(relative_error(got.at(name), want.at(name)), form_.error(tiles)) << name;
  }
};
INSTANTIATE_TEST_SUITE_P(Forms, GpuLinearSteps,
                         ::testing::Values(Form{pocket_spec, 1}, Form{pocket_spec, 2},
                                           Form{pocket_spec, 8}, Form{pocket_spec, 9},
                                           Form{pocket_spec, 70}, Form{odd_spec, 1},
                                           Form{odd_spec, 3}, Form{odd_spec, 5},
                                           Form{odd_spec, 37}));

TEST_P(GpuLinearSteps, EmbedIsTheTablesRow) {
  const auto c = random_embed(random_, spec_, control_);
  EXPECT_EQ(run_in_every_order(c), run(reference(), c));
  auto wide = c;
  wide.table = random_matrix(random_, c.table.rows, c.table.cols, 8);
  EXPECT_EQ(run(gpu_backend(), wide), run(reference(), wide));
}
TEST_P(GpuLinearSteps, GdnProject) {
  expect_as_reference(random_gdn_project(random_, spec_, control_), {"qkv", "z", "b", "a"},
                      kTileError);
}
TEST_P(GpuLinearSteps, AttentionProject) {
  auto c = random_attention_project(random_, spec_, control_);
  expect_as_reference(c, {"q_gate", "k", "v"}, kTileError);
  c.in_k = random_matrix(random_, c.in_k.rows, c.in_k.cols, 8);
  expect_as_reference(c, {"q_gate", "k", "v"}, kTileError);
}
TEST_P(GpuLinearSteps, ProjectResidual) {
  expect_as_reference(random_project_residual(random_, spec_, control_), {"h"}, kTileError);
}
TEST_P(GpuLinearSteps, RouteIsExactInBothForms) {
  const auto c = random_route(random_, spec_, control_);
  const Outputs want = run(reference(), c), got = run_in_every_order(c);
  EXPECT_EQ(got.at("experts"), want.at("experts"));
  for (const auto* name : {"x", "expert_weights", "shared_weight"})
    EXPECT_LE(relative_error(got.at(name), want.at(name)), kExactError) << name;
}
TEST_P(GpuLinearSteps, ExpertsUp) {
  auto c = random_experts_up(random_, spec_, control_);
  expect_as_reference(c, {"act", "shared_act"}, kGatedTileError);
  c.up = random_matrix(random_, c.up.rows, c.up.cols, 8);
  expect_as_reference(c, {"act", "shared_act"}, kGatedTileError);
}
TEST_P(GpuLinearSteps, ExpertsDown) {
  auto c = random_experts_down(random_, spec_, control_);
  expect_as_reference(c, {"h"}, kExpertTileError);
  c.shared_down = random_matrix(random_, c.shared_down.rows, c.shared_down.cols, 8);
  expect_as_reference(c, {"h"}, kExpertTileError);
}

// ---- a row's bits, fp32 or few

// Row `row` of the pass as a pass of its own.
PassControl alone(const PassControl& control, int row) {
  PassControl one{};
  one.n_rows = one.n_segments = one.n_head_rows = 1;
  one.segments[0].n_rows = 1;
  one.tokens[0] = control.tokens[row];
  return one;
}

template <typename Case, typename Cut>
void expect_rows_alone(const Case& all, int n_rows, const std::vector<std::string>& outputs,
                       Cut&& cut) {
  const Outputs together = run(gpu_backend(), all);
  for (int row = 0; row<n_rows; row += n_rows> 8 ? 7 : 1) {
    Case one = all;
    one.control = alone(all.control, row);
    cut(one, row);
    const Outputs got = run(gpu_backend(), one);
    for (const auto& name : outputs)
      EXPECT_EQ(got.at(name), rows_of(together.at(name), n_rows, row, 1)) << name << " " << row;
  }
}

class GpuRows : public ::testing::TestWithParam<int> {
 protected:
  int n_ = GetParam();
  ModelSpec spec_ = odd_spec();
  Random random_{41};
  PassControl control_ = pass_of(spec_, n_, {}, random_);
};
INSTANTIATE_TEST_SUITE_P(Few, GpuRows, ::testing::Values(2, 4, 7, 8));

TEST_P(GpuRows, ProjectionsDoNotSeeOtherRows) {
  const auto gdn = random_gdn_project(random_, spec_, control_);
  expect_rows_alone(gdn, n_, {"qkv", "z", "b", "a"},
                    [&](auto& c, int row) { c.h = rows_of(gdn.h, n_, row, 1); });
  const auto residual = random_project_residual(random_, spec_, control_);
  expect_rows_alone(residual, n_, {"h"}, [&](auto& c, int row) {
    c.h = rows_of(residual.h, n_, row, 1);
    c.x = rows_of(residual.x, n_, row, 1);
  });
}

TEST_P(GpuRows, ExpertsDoNotSeeOtherRows) {
  const auto k = spec_.n_chosen;
  const auto cut_experts = [&](const std::vector<std::int32_t>& all, int row) {
    return std::vector<std::int32_t>(all.begin() + row * k, all.begin() + (row + 1) * k);
  };
  const auto up = random_experts_up(random_, spec_, control_);
  expect_rows_alone(up, n_, {"act", "shared_act"}, [&](auto& c, int row) {
    c.x = rows_of(up.x, n_, row, 1);
    c.experts = cut_experts(up.experts, row);
  });
  const auto down = random_experts_down(random_, spec_, control_);
  expect_rows_alone(down, n_, {"h"}, [&](auto& c, int row) {
    c.act = rows_of(down.act, n_, row, 1);
    c.shared_act = rows_of(down.shared_act, n_, row, 1);
    c.expert_weights = rows_of(down.expert_weights, n_, row, 1);
    c.shared_weight = rows_of(down.shared_weight, n_, row, 1);
    c.h = rows_of(down.h, n_, row, 1);
    c.experts = cut_experts(down.experts, row);
  });
}

// In prefill too: the products of the router are fp32 in both forms.
TEST(GpuRoute, DoesNotSeeOtherRows) {
  for (const int n : {5, 40}) {
    Random random(42);
    const auto spec = pocket_spec();
    const auto all = random_route(random, spec, pass_of(spec, n, {}, random));
    expect_rows_alone(all, n, {"x", "experts", "expert_weights", "shared_weight"},
                      [&](auto& c, int row) { c.h = rows_of(all.h, n, row, 1); });
  }
}

TEST(GpuRoute, EqualLogitsChooseTheLowerIds) {
  Random random(43);
  const auto spec = pocket_spec();
  auto c = random_route(random, spec, pass_of(spec, 2, {}, random));
  std::fill(c.h.begin(), c.h.end(), 0.0f);
  const Outputs got = run(gpu_backend(), c);
  EXPECT_EQ(got.at("experts"), (std::vector<float>{0, 1, 2, 3, 0, 1, 2, 3}));
  for (const float w : got.at("expert_weights")) EXPECT_EQ(w, 0.25f);
}

// The ids that follow are addresses of weights: they have to exist whatever the logits are.
TEST(GpuRoute, ChoosesExpertsThatExistWhenLogitsAreNan) {
  Random random(44);
  const auto spec = pocket_spec();
  auto c = random_route(random, spec, pass_of(spec, 1, {}, random));
  c.h[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(run(gpu_backend(), c).at("experts"), (std::vector<float>{0, 1, 2, 3}));
}

// ---- experts that many rows share, and none

TEST(GpuExperts, AnyDistributionOfRows) {
  Random random(45);
  const auto spec = pocket_spec();
  for (const int n : {33, 64, 97}) {
    const auto control = pass_of(spec, n, {}, random);
    auto up = random_experts_up(random, spec, control);
    auto down = random_experts_down(random, spec, control);
    for (int row = 0; row < n; ++row) {  // All rows the same experts, but for the last place.
      for (int place = 0; place < spec.n_chosen; ++place) {
        const int expert = place < 3 ? 2 + 3 * place : 10 + row % 6;
        const auto at = static_cast<std::size_t>(row * spec.n_chosen + place);
        up.experts[at] = down.experts[at] = expert;
      }
    }
    expect_near(up, {"act", "shared_act"}, kGatedTileError, gpu_backend());
    expect_near(down, {"h"}, kExpertTileError, gpu_backend());
  }
}

// ---- head

// A block of up to 8 head rows is multiplied in fp32, a longer one on tiles, in passes of any
// length.
TEST(GpuHead, IsNearTheReference) {
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    for (const auto& [n_rows, n_head] : std::vector<std::pair<int, int>>{
             {1, 1}, {7, 5}, {8, 8}, {20, 1}, {20, 8}, {20, 9}, {40, 35}, {70, 64}}) {
      Random random(46);
      std::vector<int> head_rows;
      for (int i = 0; i < n_head; ++i) head_rows.push_back((i * 3 + n_rows - 1) % n_rows);
      const auto c = random_head(random, spec, pass_of(spec, n_rows, head_rows, random));
      const Outputs want = run(reference(), c), got = run_in_every_order(c);
      EXPECT_LE(relative_error(got.at("states"), want.at("states")), kExactError);
      EXPECT_LE(relative_error(got.at("logits"), want.at("logits")),
                n_head <= 8 ? kExactError : kTileError)
          << n_rows << " " << n_head;
    }
  }
}

TEST(GpuHead, ARowsLogitsAreThoseOfDecode) {
  Random random(47);
  const auto spec = odd_spec();
  const auto all = random_head(random, spec, pass_of(spec, 30, {29, 4, 17}, random));
  const Outputs together = run(gpu_backend(), all);
  for (int i = 0; i < 3; ++i) {
    auto one = all;
    one.control = alone(all.control, 0);
    one.h = rows_of(all.h, 30, all.control.head_rows[i], 1);
    EXPECT_EQ(run(gpu_backend(), one).at("logits"), rows_of(together.at("logits"), 3, i, 1));
  }
}

// ---- the 35B's widths

TEST(GpuLinear, AtTheWidthsOfTheLargeModel) {
  const auto spec = wide_spec();
  const auto backend = open_gpu({.workers = 2}, spec);
  for (const int n : {1, 2, 11}) {
    Random random(48);
    const auto control = pass_of(spec, n, {0}, random);
    const auto bound = [&](double tiles) { return n <= 8 ? kExactError : tiles; };
    expect_near(random_gdn_project(random, spec, control), {"qkv", "z", "b", "a"},
                bound(kTileError), *backend);
    expect_near(random_route(random, spec, control), {"experts", "x", "expert_weights"},
                kExactError, *backend);
    expect_near(random_experts_up(random, spec, control), {"act", "shared_act"},
                bound(kGatedTileError), *backend);
    expect_near(random_experts_down(random, spec, control), {"h"}, bound(kExpertTileError),
                *backend);
    expect_near(random_head(random, spec, control), {"logits"}, kExactError, *backend);
  }
}

// ---- passes recorded for more rows than they have

TEST(GpuLinear, RowsPastThePassesAreLeftAlone) {
  const auto spec = odd_spec();
  for (const int n : {3, 12}) {
    Random random(49);
    const auto control = pass_of(spec, n, {0, 2}, random);
    const auto same = [](const auto& c) {
      EXPECT_EQ(run_with_spare_rows(gpu_backend(), c), run(gpu_backend(), c));
    };
    same(random_embed(random, spec, control));
    same(random_gdn_project(random, spec, control));
    same(random_attention_project(random, spec, control));
    same(random_project_residual(random, spec, control));
    same(random_route(random, spec, control));
    same(random_experts_up(random, spec, control));
    same(random_experts_down(random, spec, control));
    same(random_head(random, spec, control));
  }
}

#if !defined(LILY_GPU_TSAN)
TEST(GpuLinear, TouchesWhatItDeclares) {
  const auto spec = odd_spec();
  for (const int n : {1, 5, 34}) {
    Random random(50);
    const auto control = pass_of(spec, n, {0}, random);
    auto& observed = observed_backend();
    expect_near(random_embed(random, spec, control), {"h"}, 0.0, observed);
    expect_near(random_gdn_project(random, spec, control), {"qkv"}, kTileError, observed);
    expect_near(random_attention_project(random, spec, control), {"k"}, kTileError, observed);
    expect_near(random_project_residual(random, spec, control), {"h"}, kTileError, observed);
    expect_near(random_route(random, spec, control), {"experts"}, 0.0, observed);
    expect_near(random_experts_up(random, spec, control), {"act"}, kGatedTileError, observed);
    expect_near(random_experts_down(random, spec, control), {"h"}, kExpertTileError, observed);
    expect_near(random_head(random, spec, control), {"logits", "states"}, kTileError, observed);
  }
}
#endif

// ---- copy

TEST(GpuCopy, AnySizeAtAnyAddress) {
  Backend& backend = gpu_backend();
  Random random(51);
  std::vector<std::byte> bytes(70000);
  for (auto& b : bytes) b = static_cast<std::byte>(random.below(256));
  for (const auto& [from, to, n] : std::vector<std::tuple<std::size_t, std::size_t, std::size_t>>{
           {0, 0, 1}, {0, 0, 16}, {64, 128, 65536}, {16, 0, 16400}, {3, 5, 1025}, {0, 0, 69999}}) {
    auto source = backend.allocate(bytes.size(), "copied from");
    auto target = backend.allocate(bytes.size(), "copied to");
    ASSERT_TRUE(source.has_value() && target.has_value());
    backend.write(*source, 0, bytes);
    ASSERT_TRUE(backend.begin({.rows_bound = 1}));
    backend.copy(
        {source->as<std::byte>(from), target->as<std::byte>(to), static_cast<std::int64_t>(n)});
    ASSERT_TRUE(backend.wait(backend.submit()).has_value());
    std::vector<std::byte> want(bytes.size()), got(bytes.size());
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), n,
                want.begin() + static_cast<std::ptrdiff_t>(to));
    ASSERT_TRUE(backend.read(*target, 0, got).has_value());
    EXPECT_EQ(got, want) << n;
  }
}

}  // namespace
}  // namespace lily::cases
