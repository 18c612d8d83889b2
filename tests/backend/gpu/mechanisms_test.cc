// Mechanisms of long passes, each switched: the bits of every step as they are by default. That is
// more than docs/NUMERICS.md promises of a device's matrix units; the emulator's add in the order
// of plain lanes. Other tests hold the default to the reference.
#include <map>
#include <string>

#include "tests/backend/gpu/gpu.h"

namespace lily::cases {
namespace {

struct Switched {
  const char* name;
  Mechanisms mechanisms;
};
const Switched kSwitched[] = {
#if !defined(LILY_GPU_TSAN)  // It has a limit for the lanes of all backends that ever were.
    {"written_out", {.dequantise_in_tile = false}},
    {"routed_by_host", {.route_on_device = false}},
    {"low_tiles", {.adaptive_tiles = false}},
    {"large_tiles", {.large_tiles = true}},
    {"low_large_tiles", {.adaptive_tiles = false, .large_tiles = true}},
    {"plain_lanes", {.matrix_units = false}},
    {"large_plain", {.large_tiles = true, .matrix_units = false}},
    {"state_in_memory", {.register_state = false}},
#endif
    {"all",
     {.dequantise_in_tile = false,
      .route_on_device = false,
      .adaptive_tiles = false,
      .large_tiles = true,
      .matrix_units = false,
      .register_state = false}},
};

// Room for few weights at a time, so that they are written out in several slices.
ModelSpec tight_spec() {
  ModelSpec spec = largest_gpu_spec();
  spec.n_experts = std::max(spec.n_experts, odd_spec().n_experts);
  return spec;
}

class GpuMechanisms : public ::testing::TestWithParam<Switched> {
 protected:
  Backend& switched() {
    static std::map<std::string, std::unique_ptr<Backend>> backends;
    auto& backend = backends[GetParam().name];
    if (backend == nullptr) {
      backend = open_gpu({.workers = 2}, tight_spec(), GetParam().mechanisms);
    }
    return *backend;
  }

  template <typename Case>
  void expect_same(const Case& c) {
    const Outputs got = run(switched(), c);
#if !defined(LILY_GPU_TSAN)  // There races are looked for.
    EXPECT_EQ(got, run(gpu_backend(), c));
#endif
  }
  void expect_same_steps(const ModelSpec& spec, int n_rows) {
    Random random(static_cast<std::uint64_t>(60 + n_rows));
    std::vector<int> head_rows;
    for (int i = 0; i < n_rows; ++i) head_rows.push_back(n_rows - 1 - i);
    const auto control =
        make_pass(spec, {{.n_rows = n_rows, .position = 70, .state_in = 1}}, head_rows, random);
    expect_same(random_gdn_project(random, spec, control));
    expect_same(random_project_residual(random, spec, control));
    expect_same(random_gdn_scan(random, spec, control));
    expect_same(random_attention(random, spec, control));
    auto up = random_experts_up(random, spec, control);
    expect_same(up);
    up.gate = random_matrix(random, up.gate.rows, up.gate.cols, 8);
    expect_same(up);
    expect_same(random_experts_down(random, spec, control));
    expect_same(random_head(random, spec, control));
  }
};
INSTANTIATE_TEST_SUITE_P(Each, GpuMechanisms, ::testing::ValuesIn(kSwitched),
                         [](const auto& of) { return std::string(of.param.name); });

TEST_P(GpuMechanisms, OfAnOddModelGiveTheSameBits) {
  for (const int n_rows : {9, 37}) expect_same_steps(odd_spec(), n_rows);
}
TEST_P(GpuMechanisms, OfThePocketGiveTheSameBits) {
  expect_same_steps(pocket_spec(), 70);
}

// Experts that all rows chose, some, one, and none: blocks of every height.
TEST_P(GpuMechanisms, AnyDistributionOfRowsGivesTheSameBits) {
  const auto spec = pocket_spec();
  Random random(61);
  const int n_rows = 97;
  const auto control = make_pass(spec, {{.n_rows = n_rows}}, {}, random);
  auto up = random_experts_up(random, spec, control);
  auto down = random_experts_down(random, spec, control);
  for (int row = 0; row < n_rows; ++row) {
    const int choice[4] = {2, row < 17 ? 3 : 4, row < 33 ? 6 : 7, 8 + row % 8};
    for (int place = 0; place < spec.n_chosen; ++place) {
      const auto at = static_cast<std::size_t>(row * spec.n_chosen + place);
      up.experts[at] = down.experts[at] = choice[place];
    }
  }
  expect_same(up);
  expect_same(down);
}

#if !defined(LILY_GPU_TSAN)
// The 35B's widths, with as many heads and experts as that takes. The last row ends in a short
// block.
TEST_P(GpuMechanisms, AtTheWidthsOfTheLargeModelGiveTheSameBits) {
  ModelSpec spec = pocket_spec();
  spec.hidden = 2048;
  spec.expert_width = spec.shared_width = 512;
  spec.n_experts = spec.n_chosen = 4;
  spec.n_key_heads = 1;
  spec.n_value_heads = 2;
  const auto plain = open_gpu({.workers = 2}, spec),
             other = open_gpu({.workers = 2}, spec, GetParam().mechanisms);
  Random random(65);
  const auto control = make_pass(spec, {{.n_rows = 33, .state_in = 1}}, {}, random);
  const auto same = [&](const auto& c) { EXPECT_EQ(run(*other, c), run(*plain, c)); };
  same(random_gdn_project(random, spec, control));
  same(random_gdn_scan(random, spec, control));
  same(random_experts_up(random, spec, control));
  same(random_experts_down(random, spec, control));
}

TEST_P(GpuMechanisms, RowsPastThePassesAreLeftAlone) {
  const auto spec = odd_spec();
  Random random(62);
  const auto control = make_pass(spec, {{.n_rows = 12}}, {0, 2}, random);
  const auto same = [&](const auto& c) {
    EXPECT_EQ(run_with_spare_rows(switched(), c), run(gpu_backend(), c));
  };
  same(random_gdn_project(random, spec, control));
  same(random_experts_up(random, spec, control));
  same(random_experts_down(random, spec, control));
  same(random_head(random, spec, control));
}

// Kernels and grids of what a pass of this case was recorded as.
using Recorded = std::vector<std::tuple<std::string, unsigned, unsigned>>;
template <typename Case>
Recorded recorded(Backend& backend, const Case& c) {
  run(backend, c);
  const auto* program = static_cast<gpu::GpuBackend&>(backend).recorded(
      {.rows_bound = c.control.n_rows, .head_blocks = 0});
  Recorded launches;
  for (const auto& l : program->launches())
    launches.emplace_back(l.kernel->name, l.grid.x, l.grid.y);
  return launches;
}

// Else the other tests would compare a thing with itself.
TEST_P(GpuMechanisms, AreRecordedAsOtherLaunches) {
  const auto spec = pocket_spec();
  Random random(64);
  const auto control = make_pass(spec, {{.n_rows = 40}}, {}, random);
  const auto scan = random_gdn_scan(random, spec, control);
  const auto up = random_experts_up(random, spec, control);
  EXPECT_NE(std::pair(recorded(switched(), scan), recorded(switched(), up)),
            std::pair(recorded(gpu_backend(), scan), recorded(gpu_backend(), up)));
}

TEST_P(GpuMechanisms, TouchWhatTheyDeclare) {
  const auto observed = open_gpu({.observe = true}, tight_spec(), GetParam().mechanisms);
  const auto spec = odd_spec();
  Random random(63);
  const auto control = make_pass(spec, {{.n_rows = 34, .state_in = 1}}, {0}, random);
  const auto same = [&](const auto& c) { EXPECT_EQ(run(*observed, c), run(gpu_backend(), c)); };
  same(random_gdn_project(random, spec, control));
  same(random_gdn_scan(random, spec, control));
  same(random_attention(random, spec, control));
  same(random_experts_up(random, spec, control));
  same(random_experts_down(random, spec, control));
  same(random_head(random, spec, control));
}
#endif

}  // namespace
}  // namespace lily::cases
