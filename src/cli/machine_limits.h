// The machine's own rates as commands show them.
#pragma once

#include <string>

#include "measure/limits.h"

namespace lily::cli {

// One JSON object, and two lines.
std::string machine_limits_json(const MachineLimits& limits);
std::string machine_limits_table(const MachineLimits& limits);

}  // namespace lily::cli
