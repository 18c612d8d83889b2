// How many cores this process may use.
#pragma once

namespace lily {

// Physical cores that this process may use: its affinity mask, hyper-threads of a core counted once, and no more than its control
// groups' quota (rounded up); on Apple processors the performance cores. At least 1.
int usable_cores();

}  // namespace lily
