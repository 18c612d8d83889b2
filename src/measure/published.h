// What the mechanisms were worth where the design was first published: another program and another
// machine (an M5 Max), end to end. Ablations show it beside what they measure.
#pragma once

#include <optional>
#include <string_view>

#include "measure/sweep_point.h"

namespace lily {

// Per cent more tokens a second with the mechanism of this name (backend/mechanisms.h) than
// without; empty where nothing was published for this kind and length.
std::optional<double> published_worth(std::string_view mechanism, const SweepPoint& point);

}  // namespace lily
