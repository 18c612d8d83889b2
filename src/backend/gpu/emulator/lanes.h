// What a lane running in the emulator may ask for: meetings with the other lanes. Called by
// dialect/emulator.h only.
#pragma once

#include <cstdint>

namespace lily::gpu {

// Where a lane meets others; taken at the call by default arguments, so that a report can name both
// sides.
struct Site {
  const char* what;
  const char* file;
  int line;
};

// Sees what each of the 32 lanes brought and changes it in place.
using Combine = void (*)(void* const* brought);

// Returns when all 32 lanes of the simdgroup have come and `combine` has run once. No memory is
// ordered by it.
void meet_lanes(void* brought, Combine combine, const Site& site);
// The same and orders memory among the 32 lanes.
void meet_lanes_in_order(const Site& site);
// Returns when all lanes of the group have come; orders memory among them.
void meet_group(const Site& site);
std::uint32_t current_lane();

}  // namespace lily::gpu
