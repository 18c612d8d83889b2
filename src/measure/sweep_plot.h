// The pictures of a sweep.
#pragma once

#include <string>

#include "measure/sweep_record.h"

namespace lily {

// Empty where nothing of this kind was measured.
std::string sweep_svg(const SweepRecord& record, SweepKind kind);

// results.json, results.csv, prefill.svg and decode.svg in a folder.
Result<void> write_sweep(const Path& folder, const SweepRecord& record);

}  // namespace lily
