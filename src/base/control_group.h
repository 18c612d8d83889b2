// What the control groups of this process leave it of the machine: its own group and every one above it may set a limit.
#pragma once

#include <cstdint>

#include "base/file.h"

namespace lily {

// Where the system tells; other places in tests.
struct ControlGroupPlaces {
  Path membership = "/proc/self/cgroup";
  Path mounted = "/sys/fs/cgroup";
};

// The smallest memory limit in bytes, of version 2 or 1; 0 where there is none.
std::uint64_t control_group_memory(const ControlGroupPlaces& places = {});
// The smallest share of processors, 1.5 for one and a half; 0 where there is none.
double control_group_cpus(const ControlGroupPlaces& places = {});

}  // namespace lily
