// bfloat16: every value survives the round trip, narrowing rounds to nearest even.
#include "base/bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lily {
namespace {

TEST(Bf16, EveryValueSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float wide = bf16_to_float(static_cast<Bf16>(bits));
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(wide))));
    } else {
      EXPECT_EQ(float_to_bf16(wide), bits);
    }
  }
}

TEST(Bf16, HalfwayGoesToTheEvenNeighbour) {
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // 1 + half a step: down to even
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // odd + half a step: up to even
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
}

TEST(Bf16, OverflowRoundsToInfinityAndNanStaysNan) {
  EXPECT_TRUE(std::isinf(bf16_to_float(float_to_bf16(std::numeric_limits<float>::max()))));
  // A NaN whose payload lies in the lower half only must not become infinity.
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace lily
