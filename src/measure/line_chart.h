// A picture of rates against lengths: a line for each series with its spread, and what the machine
// could do at most.
#pragma once

#include <string>
#include <vector>

#include "measure/spread.h"

namespace lily {

struct ChartSeries {
  std::string name;
  std::vector<std::pair<int, Spread>> points;  // Length, ascending; none: it is left out.
};

struct LineChart {
  std::string title;
  std::string below_title;  // Machine, model and date: small, over as many lines as it takes.
  std::string x_label, y_label;
  std::vector<ChartSeries> series;  // At most kMostSeries are drawn.
  std::vector<std::pair<int, double>> ceiling;
  std::string ceiling_name;
};

// Readable on a phone, in light and dark, without colour. Every point lies inside the frame; a
// ceiling far above all of them is told in words.
std::string line_chart(const LineChart& chart);

}  // namespace lily
