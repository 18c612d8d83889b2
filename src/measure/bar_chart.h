// A picture of worths in per cent: panels of bars with their spread, told apart without colour.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure/spread.h"

namespace lily {

struct Bar {
  std::string name;
  Spread per_cent;
  std::string look;  // "helps", "costs" or "within"
  std::optional<double> published;
};

struct BarPanel {
  std::string title;
  std::vector<Bar> bars;
};

struct BarChart {
  std::string title, below_title;
  std::vector<BarPanel> panels;
};

std::string bar_chart(const BarChart& chart);

}  // namespace lily
