// An SVG picture, written element by element: text, lines and marks whose looks are classes of one
// style sheet, in light and in dark. Every series has a colour that is told apart with any kind of
// colour vision, a dash and a mark of its own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lily {

inline constexpr std::size_t kMostSeries = 6;
inline constexpr double kChartWidth = 480, kChartEdge = 14;  // Of every chart; the edge stays free.

struct SvgPoint {
  double x = 0, y = 0;
};

enum class SvgAnchor { kStart, kMiddle, kEnd };

class Svg {
 public:
  // The words are for who cannot see the picture.
  Svg(std::string title, std::string description);

  struct Text {
    SvgPoint at;  // Of the baseline.
    SvgAnchor anchor = SvgAnchor::kStart;
    std::string_view look = "";  // "", "title", "quiet", "axis"
  };
  void text(const Text& how, std::string_view words);
  void line(SvgPoint from, SvgPoint to, std::string_view look);
  void path(const std::vector<SvgPoint>& points, std::string_view look);
  void box(SvgPoint corner, SvgPoint opposite, std::string_view look);
  // The series' mark, with words that appear under a pointer; none: nothing appears.
  void mark(std::size_t series, SvgPoint at, std::string_view words);
  void diamond(SvgPoint at, double radius, std::string_view look);

  // The whole picture, of this size, scaled to the width that it is shown in.
  std::string finish(double width, double height) const;

 private:
  std::string title_, description_, body_;
};

// About as wide as the words come out, in the sizes of the style sheet.
double text_width(std::string_view words, std::string_view look = "");
// Lines of at most this width, broken at spaces.
std::vector<std::string> wrap_text(std::string_view words, double width, std::string_view look);

// "1,234", "12.3": as many digits as matter.
std::string plain_number(double value);
// "512", "4K"
std::string short_length(int tokens);
// Steps of an axis from 0: 1, 2 or 5 times a power of ten, at most n of them up to `most`.
double nice_step(double most, int n);

}  // namespace lily
