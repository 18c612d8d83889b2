// Frame, axes, lines and legend.
#include "measure/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measure/svg.h"

namespace lily {
namespace {

constexpr double kLeft = 58, kRight = 462, kFrameHeight = 260;
constexpr double kFarAbove =
    4.0;                        // Times the highest point: such a ceiling would flatten the lines.
constexpr double kSample = 34;  // Of a line in the legend.

class Drawing {
 public:
  explicit Drawing(const LineChart& chart) : chart_(chart), svg_(chart.title, description(chart)) {
    find_ranges();
  }

  std::string draw() {
    write_head();
    write_legend();
    bottom_ = at_ + kFrameHeight;
    draw_axes();
    if (!ceiling_is_far_) draw_ceiling();
    for (std::size_t i = 0; i < n_series(); ++i) draw_series(i);
    return svg_.finish(kChartWidth, bottom_ + 50);
  }

 private:
  static std::string description(const LineChart& chart) {
    std::string words = chart.below_title + ".";
    for (const auto& series : chart.series) {
      words += " " + series.name + ":";
      for (const auto& [x, y] : series.points)
        words += fmt::format(" {} {}", short_length(x), plain_number(y.median));
      words += ".";
    }
    return words;
  }

  std::size_t n_series() const { return std::min(chart_.series.size(), kMostSeries); }

  void find_ranges() {
    double most = 0;
    for (const auto& series : chart_.series) {
      for (const auto& [x, y] : series.points) {
        lengths_.push_back(x);
        most = std::max(most, y.high);
      }
    }
    std::sort(lengths_.begin(), lengths_.end());
    lengths_.erase(std::unique(lengths_.begin(), lengths_.end()), lengths_.end());
    double highest = most;
    for (const auto& [x, y] : chart_.ceiling) highest = std::max(highest, y);
    ceiling_is_far_ = most > 0 && highest > kFarAbove * most;
    if (!ceiling_is_far_) most = highest;
    step_ = nice_step(most > 0 ? most * 1.03 : 1, 7);
    top_value_ = step_ * std::ceil((most > 0 ? most * 1.03 : 1) / step_);
  }

  double x_of(int length) const {
    const double low = std::log2(lengths_.front()), high = std::log2(lengths_.back());
    const double share = high > low ? (std::log2(length) - low) / (high - low) : 0.5;
    return kLeft + kChartEdge + share * (kRight - kLeft - 2 * kChartEdge);
  }
  double y_of(double value) const { return bottom_ - value / top_value_ * kFrameHeight; }

  void write_head() {
    at_ = 26;
    svg_.text({.at = {kChartEdge, at_}, .look = "title"}, chart_.title);
    for (const auto& line : wrap_text(chart_.below_title, kChartWidth - 2 * kChartEdge, "quiet")) {
      at_ += 17;
      svg_.text({.at = {kChartEdge, at_}, .look = "quiet"}, line);
    }
    at_ += 12;
  }

  // Entries side by side as far as they fit.
  void write_legend() {
    double x = kChartEdge;
    at_ += 12;
    const auto place = [&](const std::string& name) {
      const double width = kSample + 8 + text_width(name);
      if (x > kChartEdge && x + width > kChartWidth - kChartEdge) {
        x = kChartEdge;
        at_ += 20;
      }
      const SvgPoint start{x, at_};
      svg_.text({.at = {start.x + kSample + 6, at_ + 4}}, name);
      x += width + 16;
      return start;
    };
    for (std::size_t i = 0; i < n_series(); ++i) {
      if (chart_.series[i].points.empty()) continue;
      const SvgPoint start = place(chart_.series[i].name);
      svg_.line(start, {start.x + kSample, start.y}, fmt::format("line c{0} d{0}", i));
      svg_.mark(i, {start.x + kSample / 2, start.y}, "");
    }
    if (!chart_.ceiling.empty()) {
      const SvgPoint start = place(chart_.ceiling_name + far_words());
      svg_.line(start, {start.x + kSample, start.y}, "ceiling");
    }
    at_ += 40;
  }

  std::string far_words() const {
    if (!ceiling_is_far_) return "";
    const auto [least, most] =
        std::minmax_element(chart_.ceiling.begin(), chart_.ceiling.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; });
    return fmt::format(": {} .. {}, far above", plain_number(least->second),
                       plain_number(most->second));
  }

  void draw_axes() {
    svg_.text({.at = {kChartEdge, at_ - 14}, .look = "axis"}, chart_.y_label);
    for (double value = 0; value <= top_value_ * (1 + 1e-9); value += step_) {
      const double y = y_of(value);
      svg_.line({kLeft, y}, {kRight, y}, value == 0 ? "frame" : "grid");
      svg_.text({.at = {kLeft - 7, y + 4}, .anchor = SvgAnchor::kEnd, .look = "axis"},
                value == 0   ? "0"
                : step_ >= 1 ? whole(value)
                             : plain_number(value));
    }
    double free_from = 0;  // Of the labels so far.
    for (const int length : lengths_) {
      const double x = x_of(length), half = text_width(short_length(length), "axis") / 2;
      svg_.line({x, bottom_}, {x, bottom_ + 5}, "frame");
      if (x - half < free_from) continue;
      svg_.text({.at = {x, bottom_ + 19}, .anchor = SvgAnchor::kMiddle, .look = "axis"},
                short_length(length));
      free_from = x + half + 5;
    }
    svg_.text(
        {.at = {(kLeft + kRight) / 2, bottom_ + 38}, .anchor = SvgAnchor::kMiddle, .look = "axis"},
        chart_.x_label);
  }
  static std::string whole(double value) {
    return value < 99.95 ? fmt::format("{:.0f}", value) : plain_number(value);
  }

  void draw_ceiling() {
    std::vector<SvgPoint> points;
    for (const auto& [x, y] : chart_.ceiling) points.push_back({x_of(x), y_of(y)});
    if (!points.empty()) svg_.path(points, "ceiling");
  }

  void draw_series(std::size_t index) {
    const auto& series = chart_.series[index];
    std::vector<SvgPoint> points;
    const std::string colour = fmt::format("spread c{}", index);
    for (const auto& [length, rate] : series.points) {
      const double x = x_of(length), low = y_of(rate.low), high = y_of(rate.high);
      points.push_back({x, y_of(rate.median)});
      svg_.line({x, low}, {x, high}, colour);
      for (const double y : {low, high}) svg_.line({x - 4, y}, {x + 4, y}, colour);
    }
    svg_.path(points, fmt::format("line c{0} d{0}", index));
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto& [length, rate] = series.points[i];
      svg_.mark(
          index, points[i],
          fmt::format("{}, {}: {} ({} .. {})", series.name, short_length(length),
                      plain_number(rate.median), plain_number(rate.low), plain_number(rate.high)));
    }
  }

  const LineChart& chart_;
  Svg svg_;
  std::vector<int> lengths_;
  double top_value_ = 1, step_ = 1;
  bool ceiling_is_far_ = false;
  double at_ = 0, bottom_ = 0;  // How far down the picture is written; where the frame ends.
};

}  // namespace

std::string line_chart(const LineChart& chart) {
  return Drawing(chart).draw();
}

}  // namespace lily
