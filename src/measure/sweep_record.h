// What a sweep was asked for and everything that it measured: results.json, whole after every
// measurement, so that a sweep that was stopped goes on where it was. docs/SWEEPS.md has the
// schema.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "measure/sweep_point.h"

namespace lily {

struct SweepEngine {
  std::string name;     // Of the options: what tables and plots call it.
  std::string command;  // For /bin/sh.
  bool operator==(const SweepEngine&) const = default;
};

// The same options are the same sweep.
struct SweepOptions {
  std::string title;                 // Of the plots; empty: the model as the first engine names it.
  std::vector<SweepEngine> engines;  // The first is what the others are compared with.
  // Ascending: of prompts, and positions in the cache where decoding starts.
  std::vector<int> lengths = {256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};
  std::vector<int> depths = lengths;
  int decode_tokens = 64;
  int rounds = 3;
  bool one_at_a_time = false;   // Each engine is loaded and ended in every round.
  int warm_up_tokens = 4096;    // Longer points are not measured once in vain before.
  double pause_seconds = 0;     // Before every measurement.
  double limit_seconds = 3600;  // For one answer.
};

struct SweepMeasurement {
  int round = 0;  // From 1.
  std::string engine;
  SweepPoint point;
  Timing timing;      // Where there is no error.
  std::string error;  // Why there is no timing.
  std::string date;
};

struct SweepRecord {
  SweepOptions options;
  std::vector<std::string> hellos = {};  // Of each engine, as it was said; empty: not yet.
  std::vector<MachineCeiling> ceilings = {};
  std::vector<SweepMeasurement> measurements = {};
};

std::string record_json(const SweepRecord& record);
// kCorrupt names the field.
Result<SweepRecord> parse_record(const std::string& text);
Result<SweepRecord> load_record(const Path& folder);
Result<void> save_record(const Path& folder, const SweepRecord& record);  // results.json
Result<void> save_text(const Path& file, std::string_view text);

// kInvalidArgument names the first option that is another one.
Result<void> check_same_options(const SweepOptions& before, const SweepOptions& now);

// A line for each measurement, for spreadsheets.
std::string record_csv(const SweepRecord& record);

}  // namespace lily
