// Which positions of a prompt are kept: by its messages, by its length, at its end.
#include "engine/kept_positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lily {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int> positions(std::vector<int> borders, int n_tokens, int every = 1000) {
  return kept_positions({.borders = borders, .n_tokens = n_tokens, .every = every});
}

TEST(KeptPositions, TheFirstBorderTheLastTwoAndNoneBetween) {
  EXPECT_THAT(positions({0, 50, 100, 150, 200, 250}, 258), ElementsAre(50, 200, 250));
}

TEST(KeptPositions, ALongPromptEverySoOften) {
  EXPECT_THAT(positions({0, 2500}, 2508), ElementsAre(1000, 2000, 2500));
  EXPECT_THAT(positions({0, 1008, 2500}, 2508), ElementsAre(1000, 2000, 2500));
}

TEST(KeptPositions, AVeryLongPromptSevenTimes) { EXPECT_EQ(positions({}, 1'000'000, 100).size(), 8u); }

TEST(KeptPositions, TheEndUnlessABorderIsNear) {
  EXPECT_THAT(positions({}, 100), ElementsAre(99));
  EXPECT_THAT(positions({0, 60}, 100), ElementsAre(60, 99));
  EXPECT_THAT(positions({0, 90}, 100), ElementsAre(90));
}

TEST(KeptPositions, TheLastBorderIsKeptHoweverNearAnotherOne) {
  EXPECT_THAT(positions({0, 40, 45}, 53), ElementsAre(40, 45));
}

TEST(KeptPositions, BordersOutsideOfThePromptAreNone) {
  EXPECT_THAT(positions({-3, 0, 500}, 100), ElementsAre(99));
  EXPECT_THAT(positions({0}, 1), IsEmpty());
  EXPECT_THAT(positions({0, 1}, 2), ElementsAre(1));
}

}  // namespace
}  // namespace lily
