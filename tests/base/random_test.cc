// Philox 4x32-10 against the test vectors of its authors' Random123 distribution, and the law of uniform_draw.
#include "base/random.h"

#include <gtest/gtest.h>

namespace lily {
namespace {

using Words = std::array<std::uint32_t, 4>;

TEST(Philox, GivesTheAuthorsTestVectors) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(UniformDraw, IsUniformAndDependsOnSeedAndPositionAlone) {
  int histogram[10] = {};
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const float u = uniform_draw(42, i);
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    ++histogram[static_cast<int>(u * 10)];
    ASSERT_EQ(u, uniform_draw(42, i));
  }
  // Six standard deviations of a binomial with n = 100,000 and p = 0.1: 569.
  for (const int n : histogram) EXPECT_NEAR(n, 10'000, 569);
  EXPECT_NE(uniform_draw(42, 7), uniform_draw(43, 7));
  EXPECT_NE(uniform_draw(42, 7), uniform_draw(42, 7 + (1ull << 32)));
}

}  // namespace
}  // namespace lily
