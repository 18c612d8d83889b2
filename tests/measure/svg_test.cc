// Numbers and words of pictures. tests/e2e/bench_test.py parses whole pictures.
#include "measure/svg.h"

#include <gmock/gmock.h>

#include "measure/line_chart.h"

namespace lily {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Svg, NumbersHaveTheDigitsThatMatter) {
  for (const auto& [value, text] :
       {std::pair(0.5, "0.50"), std::pair(12.34, "12.3"), std::pair(999.6, "1,000"),
        std::pair(-1234.0, "-1,234"), std::pair(1234567.0, "1,234,567")})
    EXPECT_EQ(plain_number(value), text);
  EXPECT_EQ(short_length(512), "512");
  EXPECT_EQ(short_length(131072), "128K");
  EXPECT_EQ(short_length(1500), "1500");
}

TEST(Svg, StepsOfAnAxisAreRound) {
  EXPECT_DOUBLE_EQ(nice_step(100, 5), 20);
  EXPECT_DOUBLE_EQ(nice_step(101, 5), 50);
  EXPECT_DOUBLE_EQ(nice_step(0.6, 6), 0.1);
  EXPECT_DOUBLE_EQ(nice_step(58000, 6), 10000);
}

TEST(Svg, TextIsBrokenAtSpacesAndEscaped) {
  EXPECT_THAT(wrap_text("one two three", text_width("one two", "quiet"), "quiet"),
              ElementsAre("one two", "three"));
  Svg svg("a <title>", "b & c");
  svg.text({.at = {1, 2}}, "x<y\n\"z\"");
  const auto picture = svg.finish(10, 20);
  EXPECT_THAT(picture, HasSubstr("<title>a &lt;title&gt;</title>"));
  EXPECT_THAT(picture, HasSubstr("x&lt;y &quot;z&quot;"));
}

LineChart chart(std::vector<std::pair<int, double>> ceiling) {
  return {.title = "t",
          .below_title = "b",
          .x_label = "x",
          .y_label = "y",
          .series = {{"lily", {{256, {9, 10, 11}}, {512, {18, 20, 22}}}}},
          .ceiling = std::move(ceiling),
          .ceiling_name = "ceiling"};
}

TEST(LineChart, ACeilingNearbyIsDrawnAndOneFarAboveIsTold) {
  EXPECT_THAT(line_chart(chart({{256, 30}, {512, 30}})), HasSubstr("<polyline points=\"72.0,"));
  const auto far = line_chart(chart({{256, 3000}, {512, 4000}}));
  EXPECT_THAT(far, HasSubstr("ceiling: 3,000 .. 4,000, far above"));
  EXPECT_THAT(line_chart(chart({})), Not(HasSubstr("ceiling:")));
}

TEST(LineChart, OneLengthIsAPicture) {
  auto one = chart({});
  one.series[0].points.resize(1);
  EXPECT_THAT(line_chart(one), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace lily
