// `lily doctor --mac-report FILE`: everything about a Mac that nobody of the project could try, in
// one file that its owner can send.
#pragma once

#include "cli/options.h"

namespace lily::cli {

// The exit status: 0 where all that was tried is right. The file is written in either case.
Result<int> write_mac_report(const DoctorFlags& flags);

}  // namespace lily::cli
