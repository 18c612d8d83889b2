// gdn_prepare and gdn_scan on the emulator: near the reference, the same bits in every order of
// lanes, in either form, split into chunks and beside other segments.
#include <cmath>

#include "tests/backend/gpu/gpu.h"
#include "tests/backend/mixer_parts.h"

namespace lily::cases {
namespace {

GdnPrepareCase gdn_prepare_case(const ModelSpec& spec, const std::vector<Piece>& pieces, int seed) {
  Random random(static_cast<std::uint64_t>(seed));
  return random_gdn_prepare(random, spec, make_pass(spec, pieces, {}, random));
}
GdnScanCase scan_case(const ModelSpec& spec, const std::vector<Piece>& pieces, int seed) {
  Random random(static_cast<std::uint64_t>(seed));
  return random_gdn_scan(random, spec, make_pass(spec, pieces, {}, random));
}

void expect_near(const GdnPrepareCase& c, const Outputs& got) {
  const Outputs want = run(reference(), c);
  // SiLU of four products, then a norm over 128: half of the sum's error survives the root.
  for (const char* name : {"q", "k", "v"})
    EXPECT_LE(relative_error(got.at(name), want.at(name)), (64 + 8) * kUnit) << name;
  EXPECT_LE(largest_error(got.at("beta"), want.at("beta")), 4 * kUnit);
  // x e^-x is at most 1/e: a relative error of the exponent shows as less than itself.
  EXPECT_LE(largest_error(got.at("decay"), want.at("decay")), 8 * kUnit);
  EXPECT_EQ(got.at("conv"), want.at("conv"));
}

void expect_near(const GdnScanCase& c, const Outputs& got) {
  const Outputs want = run(reference(), c);
  EXPECT_LE(relative_error(got.at("delta"), want.at("delta")), 260 * kUnit);
  EXPECT_LE(relative_error(got.at("y"), want.at("y")), 2 * 260 * kUnit);
}

TEST(GpuGdn, IsNearTheReferenceInEveryOrderOfLanes) {
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    for (const auto& pieces : mixed_passes()) {
      const auto prepare = gdn_prepare_case(spec, pieces, 11);
      expect_near(prepare, run_in_every_order(prepare));
      const auto scan = scan_case(spec, pieces, 12);
      expect_near(scan, run_in_every_order(scan));
    }
  }
}

// The real model's heads: 16 of keys, 32 of values.
TEST(GpuGdn, TheFullModelsHeadsAreNearTheReference) {
  ModelSpec spec = pocket_spec();
  spec.n_key_heads = 16;
  spec.n_value_heads = 32;
  for (const int n_rows : {1, 9}) {
    const std::vector<Piece> pieces = {{.n_rows = n_rows, .state_in = 1, .state_out = 0}};
    const auto prepare = gdn_prepare_case(spec, pieces, 13);
    expect_near(prepare, run(gpu_backend(), prepare));
    const auto scan = scan_case(spec, pieces, 14);
    expect_near(scan, run(gpu_backend(), scan));
  }
}

// One long segment in pieces of `step` rows, the state handed on in place: rows and final state as
// in one pass.
template <typename Case>
void expect_split(const Case& whole, const std::vector<std::vector<float> Case::*>& members,
                  int step) {
  const int n_rows = whole.control.n_rows;
  const Outputs want = run(gpu_backend(), whole);
  Case rest = whole;
  Outputs got;
  for (int first = 0; first < n_rows; first += step) {
    const int n = std::min(step, n_rows - first);
    const Case part = part_of(rest, members, first,
                              {.n_rows = n, .position = first, .state_in = 0, .state_out = 0});
    got = run(gpu_backend(), part);
    set_pool(rest, got);
    for (const auto& [name, values] : got) {
      if (!is_pool(name)) {
        ASSERT_EQ(values, rows_of(want.at(name), n_rows, first, n))
            << name << " at " << first << " of step " << step;
      }
    }
  }
  EXPECT_EQ(pool_of(got), pool_of(want)) << "step " << step;
}

// Few rows and many take different kernels: the bits are the same.
TEST(GpuGdn, ChunksOfAnySizeGiveTheBitsOfOnePass) {
  const std::vector<Piece> whole = {{.n_rows = 53, .position = 3, .state_in = 0, .state_out = 0}};
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    for (const int step : {1, 2, 5, 8, 9, 16, 17, 32}) {
      expect_split(gdn_prepare_case(spec, whole, 15), kPrepareRows, step);
      expect_split(scan_case(spec, whole, 16), kScanRows, step);
    }
  }
}

// Each segment of a pass as a pass of its own, on the pool that the pass began with.
template <typename Case>
void expect_alone(const Case& c, const std::vector<std::vector<float> Case::*>& members,
                  const std::vector<Piece>& pieces) {
  const Outputs all = run(gpu_backend(), c);
  Case rest = c;
  Outputs got;
  int first = 0;
  for (const auto& piece : pieces) {
    got = run(gpu_backend(), part_of(rest, members, first, piece));
    set_pool(rest, got);
    for (const auto& [name, values] : got) {
      if (!is_pool(name)) {
        EXPECT_EQ(values, rows_of(all.at(name), c.control.n_rows, first, piece.n_rows)) << name;
      }
    }
    first += piece.n_rows;
  }
  EXPECT_EQ(pool_of(got), pool_of(all));
}

TEST(GpuGdn, ASegmentBesideOthersGivesTheBitsOfItAlone) {
  for (const auto& pieces : mixed_passes()) {
    expect_alone(gdn_prepare_case(pocket_spec(), pieces, 17), kPrepareRows, pieces);
    expect_alone(scan_case(pocket_spec(), pieces, 18), kScanRows, pieces);
  }
}

TEST(GpuGdn, ARecordingForMoreRowsGivesTheSame) {
  for (const auto& pieces : mixed_passes()) {
    const auto prepare = gdn_prepare_case(odd_spec(), pieces, 21);
    EXPECT_EQ(run_with_spare_rows(gpu_backend(), prepare), run(gpu_backend(), prepare));
    const auto scan = scan_case(odd_spec(), pieces, 22);
    EXPECT_EQ(run_with_spare_rows(gpu_backend(), scan), run(gpu_backend(), scan));
  }
}

#if !defined(LILY_GPU_TSAN)
TEST(GpuGdn, TouchesWhatItDeclaresAndNothingElse) {
  for (const auto& pieces : mixed_passes()) {
    const auto prepare = gdn_prepare_case(odd_spec(), pieces, 19);
    EXPECT_EQ(run_with_spare_rows(observed_backend(), prepare), run(gpu_backend(), prepare));
    const auto scan = scan_case(odd_spec(), pieces, 20);
    EXPECT_EQ(run_with_spare_rows(observed_backend(), scan), run(gpu_backend(), scan));
  }
}
#endif

}  // namespace
}  // namespace lily::cases
