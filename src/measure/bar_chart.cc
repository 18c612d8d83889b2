// Panels one below the other, on one scale.
#include "measure/bar_chart.h"

#include <fmt/format.h>

#include <algorithm>

#include "measure/svg.h"

namespace lily {
namespace {

constexpr double kNames = 158, kBarsEnd = 394, kRow = 19;
constexpr double kMostPerCent =
    100;  // Longer bars end at the frame; their figure stands beside them.

class BarDrawing {
 public:
  explicit BarDrawing(const BarChart& chart)
      : chart_(chart), svg_(chart.title, description(chart)) {
    for (const auto& panel : chart.panels) {
      for (const auto& bar : panel.bars) {
        const double published = bar.published.value_or(0);
        least_ = std::min({least_, bar.per_cent.low, published});
        most_ = std::max({most_, bar.per_cent.high, published});
      }
    }
    is_cut_ = most_ > kMostPerCent || least_ < -kMostPerCent;
    least_ = std::max(least_, -kMostPerCent);
    most_ = std::min(std::max(most_, 1.0), kMostPerCent);
  }

  std::string draw() {
    write_head();
    write_legend();
    for (const auto& panel : chart_.panels) draw_panel(panel);
    return svg_.finish(kChartWidth, at_ + 8);
  }

 private:
  static std::string description(const BarChart& chart) {
    std::string words = chart.below_title + ".";
    for (const auto& panel : chart.panels) {
      words += " " + panel.title + ":";
      for (const auto& bar : panel.bars)
        words += fmt::format(" {} {:+.1f} %;", bar.name, bar.per_cent.median);
    }
    return words;
  }

  double x_of(double per_cent) const {
    const double inside = std::clamp(per_cent, least_, most_);
    return kNames + (inside - least_) / (most_ - least_) * (kBarsEnd - kNames);
  }

  void write_head() {
    at_ = 26;
    svg_.text({.at = {kChartEdge, at_}, .look = "title"}, chart_.title);
    const std::string cut = is_cut_ ? "; bars end at 100 %" : "";
    for (const auto& line :
         wrap_text(chart_.below_title + cut, kChartWidth - 2 * kChartEdge, "quiet")) {
      at_ += 17;
      svg_.text({.at = {kChartEdge, at_}, .look = "quiet"}, line);
    }
    at_ += 24;
  }

  void write_legend() {
    double x = kChartEdge;
    const auto word = [&](double sample, const std::string& name) {
      svg_.text({.at = {x + sample + 6, at_ + 4}, .look = "quiet"}, name);
      x += sample + 6 + text_width(name, "quiet") + 12;
    };
    for (const auto& [look, name] : {std::pair("helps", "helps"), std::pair("costs", "costs"),
                                     std::pair("within", "within the spread")}) {
      svg_.box({x, at_ - 5}, {x + 22, at_ + 5}, look);
      word(22, name);
    }
    svg_.diamond({x + 6, at_}, 5, "published");
    word(12, "as published");
    at_ += 14;
  }

  void draw_panel(const BarPanel& panel) {
    at_ += 24;
    svg_.text({.at = {kChartEdge, at_}}, panel.title);
    at_ += 8;
    const double top = at_, bottom = top + kRow * static_cast<double>(panel.bars.size());
    svg_.line({x_of(0), top}, {x_of(0), bottom}, "frame");
    for (const auto& bar : panel.bars) {
      draw_bar(bar, at_ + kRow / 2);
      at_ += kRow;
    }
  }

  void draw_bar(const Bar& bar, double middle) {
    const auto& [low, median, high] = bar.per_cent;
    svg_.text({.at = {kNames - 8, middle + 4}, .anchor = SvgAnchor::kEnd, .look = "axis"},
              bar.name);
    svg_.box({x_of(0), middle - 5}, {x_of(median), middle + 5}, bar.look);
    svg_.line({x_of(low), middle}, {x_of(high), middle}, "whisker");
    for (const double end : {low, high})
      svg_.line({x_of(end), middle - 3}, {x_of(end), middle + 3}, "whisker");
    if (bar.published) svg_.diamond({x_of(*bar.published), middle}, 5, "published");
    svg_.text(
        {.at = {kChartWidth - kChartEdge, middle + 4}, .anchor = SvgAnchor::kEnd, .look = "axis"},
        fmt::format("{:+.1f} %", median));
  }

  const BarChart& chart_;
  Svg svg_;
  double least_ = 0, most_ = 0;  // Of the scale, in per cent.
  bool is_cut_ = false;
  double at_ = 0;
};

}  // namespace

std::string bar_chart(const BarChart& chart) {
  return BarDrawing(chart).draw();
}

}  // namespace lily
