// Nearest ranks, counted by hand.
#include "measure/percentiles.h"

#include <gtest/gtest.h>

namespace lily {
namespace {

TEST(Percentiles, OfAHundred) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const Percentiles p = percentiles_of(values);
  EXPECT_EQ(p.count, 100);
  EXPECT_EQ(p.mean, 50.5);
  EXPECT_EQ(p.p50, 50);
  EXPECT_EQ(p.p90, 90);
  EXPECT_EQ(p.p99, 99);
  EXPECT_EQ(p.most, 100);
}

TEST(Percentiles, OfThree) {
  const Percentiles p = percentiles_of({30, 10, 20});
  EXPECT_EQ(p.p50, 20);  // Half of three is one and a half: the second.
  EXPECT_EQ(p.p90, 30);
  EXPECT_EQ(p.p99, 30);
  EXPECT_EQ(p.mean, 20);
}

TEST(Percentiles, OfOneAndOfNone) {
  EXPECT_EQ(percentiles_of({7}).p50, 7);
  EXPECT_EQ(percentiles_of({7}).p99, 7);
  EXPECT_EQ(percentiles_of({}).count, 0);
}

TEST(Percentiles, TheLastOfAHundredAndOneIsBeyondNinetyNinePerCent) {
  std::vector<double> values(100, 1.0);
  values.push_back(1000.0);
  EXPECT_EQ(percentiles_of(values).p99, 1.0);
  EXPECT_EQ(percentiles_of(values).most, 1000.0);
  values.push_back(1000.0);
  values.push_back(1000.0);
  EXPECT_EQ(percentiles_of(values).p99, 1000.0);  // The 102nd of 103.
}

}  // namespace
}  // namespace lily
