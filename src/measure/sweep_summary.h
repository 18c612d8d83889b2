// What a sweep found: rates at each length with their spread, and the first engine's ratio to each
// other one, taken within a round so that a machine that drifts drifts for both.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure/spread.h"
#include "measure/sweep_record.h"

namespace lily {

struct SweepCell {
  std::optional<Spread> rate;   // Tokens a second; empty: not measured.
  std::optional<Spread> ratio;  // The first engine's rate over this one's.
  std::string error;
};

struct SweepRow {
  SweepPoint point;
  std::vector<SweepCell> cells = {};  // An engine each.
  double ceiling = 0;            // Tokens a second; 0: not known.
};

// Of one kind, ascending.
std::vector<SweepRow> summarise(const SweepRecord& record, SweepKind kind);

// Over the rows that have one: "how many times as fast" in one number.
struct MeanRatio {
  double mean = 0, least = 0, most = 0;
  int n_rows = 0;
};
MeanRatio mean_ratio(const std::vector<SweepRow>& rows, std::size_t engine);

// Tables of both kinds with ratios, and the means in a sentence.
std::string summary_text(const SweepRecord& record);

// "Qwen3.6-35B-A3B, 40 layers": of the options, else as the first engine names its model.
std::string sweep_title(const SweepRecord& record);

}  // namespace lily
