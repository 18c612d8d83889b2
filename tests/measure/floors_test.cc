// The floors of the pocket's steps, worked out by hand.
#include "measure/floors.h"

#include <gtest/gtest.h>

#include "weights/synth_config.h"

namespace lily {
namespace {

ModelSpec pocket() {
  return synthetic_spec("pocket", 0).value();
}

void expect_floor(const std::optional<Floor>& floor, double bytes, double multiply_adds) {
  ASSERT_TRUE(floor.has_value());
  EXPECT_DOUBLE_EQ(floor->bytes, bytes);
  EXPECT_DOUBLE_EQ(floor->multiply_adds, multiply_adds);
}

// 256 wide; delta layers of 2,048 + 1,024 + 16 rows, attention of 16 heads; 4 of 16 experts of 128.
// A weight of 4 bits costs 9/16 of a byte.
TEST(Floors, StepsOfADecodedRow) {
  const ModelSpec spec = pocket();
  const PassShape row{.rows = 1, .position = 100, .head_rows = 1};
  expect_floor(step_floor(spec, row, "embed"), 256 * 9 / 16 + 4 * 256, 0);
  expect_floor(step_floor(spec, row, "gdn_project"), 444'672 + 4 * (256 + 256 + 3088), 790'528);
  expect_floor(step_floor(spec, row, "gdn_scan"), 1'060'928 + 4 * (1024 + 128), 524'288);
  expect_floor(step_floor(spec, row, "project_residual"), 147'456 + 4 * (1024 + 512), 262'144);
  expect_floor(step_floor(spec, row, kAttentionResidual), 589'824 + 4 * (4096 + 512), 1'048'576);
  expect_floor(step_floor(spec, row, "attention_project"), 1'327'104 + 4 * 9'728, 2'359'296);
  expect_floor(step_floor(spec, row, "attention"), 101 * 2'048 + 4 * 3 * 4'096, 827'392);
  expect_floor(step_floor(spec, row, "route"), 4'624 + 4 * 512 + 4 * (256 + 9), 4'352);
  expect_floor(step_floor(spec, row, "experts_up"), 184'320 + 4 * 260 + 4 * 640, 327'680);
  expect_floor(step_floor(spec, row, "experts_down"), 92'160 + 4 * 640 + 4 * 521, 163'840);
  expect_floor(step_floor(spec, row, "head"), 589'824 + 4 * (512 + 4'096), 1'048'576);
  EXPECT_FALSE(step_floor(spec, row, "copy").has_value());
}

TEST(Floors, ManyRowsReadAMatrixOnce) {
  const ModelSpec spec = pocket();
  expect_floor(step_floor(spec, {.rows = 10}, "gdn_project"),
               444'672 + 4 * (256 + 10 * (256 + 3'088)), 7'905'280);
  // Positions 1 to 10 of 4,096 products with keys and as many with values.
  EXPECT_DOUBLE_EQ(step_floor(spec, {.rows = 10}, "attention")->multiply_adds, 2 * 4'096 * 55);
}

TEST(Floors, ExpertsAreThoseThatAreReached) {
  EXPECT_DOUBLE_EQ(distinct_experts(pocket(), 1), 4);
  EXPECT_DOUBLE_EQ(distinct_experts(pocket(), 2), 7);
  EXPECT_NEAR(distinct_experts(pocket(), 1000), 16, 1e-9);
}

// What tests/backend/gpu/traffic_test.cc counts, at its widths.
TEST(Floors, KernelsHaveTheirPartOfAStep) {
  const ModelSpec spec = pocket();
  const PassShape row{.rows = 1, .position = 100, .head_rows = 1};
  EXPECT_DOUBLE_EQ(kernel_floor(spec, row, "gdn_scan", "gdn_scan_few")->bytes,
                   step_floor(spec, row, "gdn_scan")->bytes);
  EXPECT_DOUBLE_EQ(kernel_floor(spec, row, "route", "linear_few_norm_1")->bytes, 4'624 + 4 * 529);
  EXPECT_DOUBLE_EQ(kernel_floor(spec, row, "choose", "head_chunks_1")->bytes,
                   step_floor(spec, row, "head")->bytes);
  expect_floor(kernel_floor(spec, row, "attention", "attention_few_1"), 100 * 2'048 + 4 * 4'096,
               827'392);
  EXPECT_FALSE(kernel_floor(spec, row, "experts_up", "experts_activate").has_value());
  EXPECT_FALSE(kernel_floor(spec, row, "embed", "linear_few_norm_1").has_value());
}

}  // namespace
}  // namespace lily
