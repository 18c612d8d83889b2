// The tile layer: the one test that every body of it passes, here those of the emulator.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "backend/gpu/emulator/emulator.h"
#include "base/bf16.h"
#include "tests/gpu/planted.h"

namespace lily::gpu {
namespace {

struct Sizes {
  uint cols, ld, out_ld;
};
constexpr Sizes kSizes[] = {{16, 16, 32}, {16, 72, 68}, {48, 50, 33}, {64, 72, 36}, {64, 80, 80}};

std::vector<Kernel> bodies() {
#define BODY(name) PLANTED(name),
  return {TILE_KERNELS(BODY)};
}

class TileLayer : public ::testing::TestWithParam<Kernel> {
 protected:
  std::vector<float> product(const Sizes& sizes, const EmulatorOptions& options = {}) {
    std::vector<float> c(16 * 32, -7.0f);
    auto emulator = Emulator::create(options).value();
    emulator->add_memory(a_.data(), a_.size() * 2, "a");
    emulator->add_memory(b_.data(), b_.size() * 2, "b");
    emulator->add_memory(c.data(), c.size() * 4, "c");
    const TileProductParams params{a_.data(), b_.data(),    c.data(), sizes.cols,
                                   sizes.ld,  sizes.out_ld, 0};
    const auto done = emulator->run(GetParam(), params, {1}, 32);
    emulator->barrier();
    EXPECT_TRUE(done.has_value()) << done.error().message;
    return c;
  }
  void fill(const Sizes& sizes) {
    for (uint i = 0; i < 16 * sizes.cols; ++i) a_.push_back(draw(i));
    for (uint i = 0; i < 32 * sizes.cols; ++i) b_.push_back(draw(i + 5000));
  }
  static std::uint16_t draw(std::uint64_t i) {
    return float_to_bf16(static_cast<float>(
        static_cast<double>((i * 0x9e3779b97f4a7c15ull) >> 40) / 16777216.0 - 0.5));
  }
  static double value(const std::vector<std::uint16_t>& m, uint at) { return bf16_to_float(m[at]); }

  std::vector<std::uint16_t> a_, b_;  // [16, cols], [32, cols] bf16
};
INSTANTIATE_TEST_SUITE_P(Bodies, TileLayer, ::testing::ValuesIn(bodies()),
                         [](const auto& kernel) { return std::string(kernel.param.name); });

// Whatever the order of the sums, whose terms are exact: cols roundings at most.
TEST_P(TileLayer, AProductIsWithinTheBoundOfItsSums) {
  for (const Sizes& sizes : kSizes) {
    a_.clear();
    b_.clear();
    fill(sizes);
    const auto c = product(sizes);
    for (uint i = 0; i < 16; ++i) {
      for (uint j = 0; j < 32; ++j) {
        double want = 0, terms = 0;
        for (uint k = 0; k < sizes.cols; ++k) {
          const double term = value(a_, i * sizes.cols + k) * value(b_, j * sizes.cols + k);
          want += term;
          terms += std::abs(term);
        }
        ASSERT_NEAR(c[i * 32 + j], want, terms * sizes.cols * 0x1p-24)
            << sizes.cols << ": " << i << ", " << j;
      }
    }
  }
}

// One number in a and in b each, everywhere in turn: it is met where it should be and nowhere else.
TEST_P(TileLayer, EveryElementHasItsPlace) {
  const Sizes sizes{16, 24, 36};
  for (uint at = 0; at < 32 * 16; ++at) {
    a_.assign(16 * 16, 0);
    b_.assign(32 * 16, 0);
    const uint i = at % 16, j = at / 16, k = (at * 7 + 3) % 16;
    a_[i * 16 + k] = float_to_bf16(2.0f);
    b_[j * 16 + k] = float_to_bf16(-1.5f);
    std::vector<float> want(16 * 32, 0.0f);
    want[i * 32 + j] = -3.0f;
    ASSERT_EQ(product(sizes), want) << i << ", " << j << ", " << k;
  }
}

TEST_P(TileLayer, TheOrderOfLanesChangesNothing) {
  fill(kSizes[3]);
  const auto want = product(kSizes[3]);
  EXPECT_EQ(product(kSizes[3], {.order = LaneOrder::kReverse}), want);
  EXPECT_EQ(product(kSizes[3], {.order = LaneOrder::kShuffled, .seed = 3}), want);
#if !defined(LILY_GPU_TSAN)
  EXPECT_EQ(product(kSizes[3], {.observe = true}), want);
#endif
}

}  // namespace
}  // namespace lily::gpu
