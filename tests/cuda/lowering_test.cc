// Which launches become Hopper's own kernels: a rule takes what it knows the shapes of, and leaves
// all else as it is.
#include "backend/gpu/cuda/lowering.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backend/gpu/cuda/kernels/delta_params.h"
#include "backend/gpu/kernels/linear_params.h"

namespace lily::gpu::cuda {
namespace {

constexpr Card kHopper{.multiprocessors = 132, .narrow = nullptr};

template <typename Params>
Launch launch_of(const char* kernel, const Params& params, Grid grid, const Range& reads,
                 const Range& writes) {
  const auto bytes = std::as_bytes(std::span(&params, 1));
  return {.kernel = find_kernel(kernel),
          .args = {bytes.begin(), bytes.end()},
          .grid = grid,
          .threads = 64,
          .reads = {reads},
          .writes = {writes}};
}

Launch product(unsigned bits, unsigned cols, const Range& reads, const Range& writes) {
  LinearParams params{};
  params.cols = cols;
  params.parts[0].rows = 512;
  params.parts[0].bits = bits;
  return launch_of("linear_few_norm_1", params, {64}, reads, writes);
}

class LoweringTest : public ::testing::Test {
 protected:
  // Memory that launches name and nobody touches.
  float memory_[4] = {};
  Range at(int i) const { return range(memory_ + i, 1); }
  Program program_;
};

TEST_F(LoweringTest, ACardWithoutOwnKernelsRunsTheLaunches) {
  program_.add(product(4, 2048, at(0), at(1)));
  const auto nodes = lower(program_, {});
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_TRUE(nodes[0].own.empty());
  EXPECT_EQ(nodes[0].shared, find_kernel("linear_few_norm_1"));
  EXPECT_FALSE(nodes[0].waits);
}

TEST_F(LoweringTest, ProductsBecomeWhatTheirShapeAsksFor) {
  program_.add(product(4, 2048, at(0), at(1)));
  program_.add(product(8, 2048, at(1), at(2)));
  program_.add(product(4, 320, at(2), at(3)));
  const auto nodes = lower(program_, kHopper);
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].own, "linear_int8_norm_4_2");
  EXPECT_EQ(nodes[0].grid.x, 128u);  // A group per quad: there are fewer than multiprocessors.
  EXPECT_EQ(nodes[1].own, "linear_split_norm_8");
  EXPECT_TRUE(nodes[1].barrier_before);
  EXPECT_TRUE(nodes[2].own.empty()) << "no kernel is made for rows of 320";
}

// Convolution and delta rule in one node, which fetches states early only where nothing copies
// them.
TEST_F(LoweringTest, TheDeltaRuleIsOneNode) {
  GdnScanParams scan{};
  scan.n_key_heads = 16;
  scan.n_value_heads = 32;
  program_.add(launch_of("gdn_prepare", GdnPrepareParams{}, {17, 1}, at(0), at(1)));
  program_.add(launch_of("gdn_scan_few", scan, {32, 1}, at(1), at(2)));
  const auto nodes = lower(program_, kHopper);
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_EQ(nodes[0].own, "delta_step");
  EXPECT_EQ(nodes[0].grid.x, 128u);
  DeltaStepParams params;
  ASSERT_EQ(nodes[0].args.size(), sizeof params);
  std::memcpy(&params, nodes[0].args.data(), sizeof params);
  EXPECT_EQ(params.fetch_early, 1u);
}

TEST_F(LoweringTest, LaunchesThatShareAStageStayApart) {
  program_.add(launch_of("gdn_prepare", GdnPrepareParams{}, {17, 1}, at(0), at(1)));
  program_.add(product(4, 320, at(0), at(3)));
  GdnScanParams scan{};
  scan.n_key_heads = 16;
  scan.n_value_heads = 32;
  program_.add(launch_of("gdn_scan_few", scan, {32, 1}, at(1), at(2)));
  EXPECT_EQ(lower(program_, kHopper).size(), 3u);
}

TEST(OwnKernels, HaveAFileEach) {
  for (const OwnKernel& kernel : own_kernels()) {
    EXPECT_FALSE(kernel.name.empty());
    EXPECT_TRUE(kernel.file.ends_with(".cu")) << kernel.name;
  }
}

}  // namespace
}  // namespace lily::gpu::cuda
