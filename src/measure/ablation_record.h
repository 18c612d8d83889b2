// An ablation's results as a file, a table, lines for a spreadsheet and a picture.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "measure/ablation.h"

namespace lily {

struct AblationRecord {
  std::string model, system, date, provenance;  // provenance: a JSON object.
  int rounds = 0;
  std::vector<AblationResult> results = {};  // The control first.
};

std::string ablation_json(const AblationRecord& record);
// kCorrupt says where.
Result<AblationRecord> parse_ablation(const std::string& text);
Result<AblationRecord> load_ablation(const Path& folder);  // ablation.json

std::string ablation_csv(const AblationRecord& record);
// A block for each point, a line for each mechanism.
std::string ablation_text(const AblationRecord& record);
std::string ablation_svg(const AblationRecord& record);

// ablation.json, ablation.csv and ablation.svg.
Result<void> write_ablation(const Path& folder, const AblationRecord& record);

}  // namespace lily
