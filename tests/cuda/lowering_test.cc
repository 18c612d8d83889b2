// Which launches become Hopper's own kernels: a rule takes what it knows the shapes of, and leaves
// all else as it is.
#include "backend/gpu/cuda/lowering.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backend/gpu/cuda/kernels/delta_params.h"
#include "backend/gpu/kernels/copy_params.h"
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

Launch product(unsigned bits, unsigned cols, const Range& reads, const Range& writes,
               unsigned rows = 512) {
  LinearParams params{};
  params.cols = cols;
  params.parts[0].rows = rows;
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
  program_.add(product(4, 2048, at(3), at(0), 248320));
  const auto nodes = lower(program_, kHopper);
  ASSERT_EQ(nodes.size(), 4u);
  EXPECT_EQ(nodes[0].own, "linear_mma_norm_2048");
  EXPECT_EQ(nodes[0].grid.x, 128u);  // A group per quad: there are fewer than multiprocessors.
  EXPECT_EQ(nodes[1].own, "linear_mma_norm8_2048");
  EXPECT_TRUE(nodes[1].barrier_before);
  EXPECT_TRUE(nodes[2].own.empty()) << "no kernel is made for rows of 320";
  EXPECT_EQ(nodes[3].own, "linear_int8_norm_2") << "more rows than fit at once";
}

// The launches of a delta layer of the 35B, up to its residual.
class DeltaLayerTest : public LoweringTest {
 protected:
  void SetUp() override {
    scan_.n_key_heads = 16;
    scan_.n_value_heads = 32;
    scan_.z = memory_ + 1;
    scan_.y = memory_;
    prepare_.qkv = memory_;
    prepare_.q = memory_ + 1;
    prepare_.b = memory_ + 2;
    prepare_.a = memory_ + 3;
    project_.cols = 2048;
    const unsigned rows[] = {8192, 4096, 32, 32};
    for (int i = 0; i < 4; ++i) {
      project_.parts[i].rows = rows[i];
      project_.parts[i].bits = 4;
      project_.parts[i].y = memory_ + i;
    }
    residual_.cols = 4096;
    residual_.parts[0].rows = 2048;
    residual_.parts[0].bits = 4;
    residual_.x = memory_;
  }
  std::vector<Node> lowered() {
    program_.add(launch_of("linear_few_norm_1", project_, {64}, at(3), at(0)));
    program_.add(launch_of("gdn_prepare", prepare_, {17, 1}, at(0), at(1)));
    program_.add(launch_of("gdn_scan_few", scan_, {32, 1}, at(1), at(2)));
    program_.add(launch_of("linear_few_add_1", residual_, {64}, at(2), at(3)));
    return lower(program_, kHopper);
  }

  static DeltaStepParams step_of(const Node& node) {
    DeltaStepParams params{};
    EXPECT_EQ(node.own, "delta_step");
    if (node.args.size() == sizeof params) std::memcpy(&params, node.args.data(), sizeof params);
    return params;
  }

  LinearParams project_{}, residual_{};
  GdnPrepareParams prepare_{};
  GdnScanParams scan_{};
};

// Convolution goes to the projection, the heads' root mean squares to the product that follows.
TEST_F(DeltaLayerTest, IsThreeNodes) {
  const auto nodes = lowered();
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].own, "delta_project_2048");
  EXPECT_EQ(nodes[1].own, "delta_step");
  EXPECT_EQ(nodes[1].grid.x, 128u);
  EXPECT_EQ(nodes[2].own, "linear_mma_heads_4096");
  EXPECT_TRUE(nodes[1].barrier_before && nodes[2].barrier_before);
  EXPECT_EQ(step_of(nodes[1]).fetch_early, 1u);
}

// Where something else multiplies what the delta rule leaves, it has to leave all of it.
TEST_F(DeltaLayerTest, StaysAsItIsWhereItsOutputIsNotWhatIsMultiplied) {
  residual_.x = memory_ + 1;
  const auto nodes = lowered();
  ASSERT_EQ(nodes.size(), 4u);
  EXPECT_TRUE(nodes[1].own.empty() && nodes[2].own.empty());
  EXPECT_EQ(nodes[3].own, "linear_mma_add_4096");
}

TEST_F(DeltaLayerTest, StatesAreNotFetchedEarlyWhereTheyAreCopied) {
  program_.add(launch_of("copy_words", CopyParams{}, {1}, at(1), at(3)));
  const auto nodes = lowered();
  ASSERT_EQ(nodes.size(), 4u);
  EXPECT_TRUE(nodes[0].own.empty());
  EXPECT_EQ(step_of(nodes[2]).fetch_early, 0u);
}

// Many rows: 100 of them may be a whole chunk of 64, and one more that is not for each segment.
class ManyRowsTest : public LoweringTest {
 protected:
  std::vector<Node> lowered(unsigned key_heads, unsigned value_heads) {
    GdnScanParams scan{};
    scan.n_key_heads = key_heads;
    scan.n_value_heads = value_heads;
    program_.add(launch_of("gdn_scan_many", scan, {4 * value_heads, 64}, at(0), at(1)));
    program_.add(launch_of("gdn_norm", scan, {value_heads / 4, 100}, at(1), at(2)));
    return lower(program_, kHopper);
  }
};

TEST_F(ManyRowsTest, TheDeltaRuleIsItsChunksAndThenItsStates) {
  const auto nodes = lowered(16, 32);
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].own, "delta_chunks");
  EXPECT_EQ(nodes[0].grid.x, 16u);
  EXPECT_EQ(nodes[0].grid.y, 65u);
  EXPECT_EQ(nodes[0].n_launches, 0u);
  EXPECT_EQ(nodes[1].own, "delta_scan");
  EXPECT_EQ(nodes[1].grid.x, 128u);
  EXPECT_TRUE(nodes[1].barrier_before);
  EXPECT_TRUE(nodes[2].own.empty());
}

TEST_F(ManyRowsTest, TheDeltaRuleOfMoreValueHeadsAKeyHeadStaysAsItIs) {
  const auto nodes = lowered(8, 32);
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_TRUE(nodes[0].own.empty());
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
