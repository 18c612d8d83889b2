// What was measured of a pass, gathered into rows.
#include "measure/kernel_table.h"

#include <gtest/gtest.h>

#include "weights/synth_config.h"

namespace lily {
namespace {

constexpr DeviceRates kRates{.bytes_per_second = 1e9, .multiply_adds_per_second = 1e12};
constexpr PassShape kRow{.rows = 1, .position = 100, .head_rows = 1};

KernelTable table_of(std::vector<PieceTime> pieces) {
  return make_kernel_table(synthetic_spec("pocket", 0).value(), kRow,
                           {.pieces = std::move(pieces), .seconds = 0.5}, kRates);
}

TEST(KernelTable, CallsOfOneKernelForOneStepAreARow) {
  const PieceTime project{"fast_project", {{"gdn_project", "linear_few_norm_1"}}, 0.25};
  const auto table = table_of({project, {"narrow", {}, 0.125}, project});
  ASSERT_EQ(table.rows.size(), 2u);
  const KernelRow& row = table.rows.front();
  EXPECT_EQ(row.kernel, "fast_project");
  EXPECT_EQ(row.steps, "gdn_project");
  EXPECT_EQ(row.calls, 2);
  EXPECT_EQ(row.seconds, 0.5);
  EXPECT_DOUBLE_EQ(row.floor.bytes, 2 * 459'072);
  EXPECT_DOUBLE_EQ(row.floor_seconds, 2 * 459'072 / 1e9);
  EXPECT_FALSE(row.by_arithmetic);
  EXPECT_DOUBLE_EQ(row.share(), 2 * 459'072 / 1e9 / 0.5);
  EXPECT_EQ(table.rows[1].steps, "");
  EXPECT_EQ(table.rows[1].share(), 0);
  EXPECT_EQ(table.sum_seconds, 0.625);
  EXPECT_EQ(table.pass_seconds, 0.5);
  EXPECT_DOUBLE_EQ(table.floor_seconds, row.floor_seconds);
}

TEST(KernelTable, AKernelThatDoesSeveralHasTheFloorOfAll) {
  const auto table =
      table_of({{"both", {{"route", "route_choose"}, {"experts_up", "experts_few_up"}}, 0.25}});
  EXPECT_EQ(table.rows.front().steps, "route + experts_up");
  EXPECT_DOUBLE_EQ(table.rows.front().floor.bytes, 187'920 + 4 * (256 + 512 + 17 + 9));
}

TEST(KernelTable, ProjectionsBehindTheTwoMixersAreRowsOfTheirOwn) {
  const auto step = [](const char* name) { return PieceTime{name, {{name, ""}}, 0.125}; };
  const auto table =
      table_of({step("gdn_scan"), step("project_residual"), step("attention"),
                step("project_residual"), step("gdn_scan"), step("project_residual")});
  ASSERT_EQ(table.rows.size(), 4u);
  EXPECT_EQ(table.rows[1].calls, 2);
  EXPECT_EQ(table.rows[3].steps, kAttentionResidual);
  EXPECT_DOUBLE_EQ(table.rows[3].floor.bytes, 589'824 + 4 * (4'096 + 512));
}

TEST(KernelTable, TheNearerRateIsTheFloor) {
  const auto table = make_kernel_table(
      synthetic_spec("pocket", 0).value(), {.rows = 512},
      {.pieces = {{"tiles", {{"gdn_project", "linear_tile_norm"}}, 1}}, .seconds = 1},
      {.bytes_per_second = 1e12, .multiply_adds_per_second = 1e9});
  EXPECT_TRUE(table.rows.front().by_arithmetic);
  EXPECT_DOUBLE_EQ(table.rows.front().floor_seconds, 512 * 790'528 / 1e9);
}

}  // namespace
}  // namespace lily
