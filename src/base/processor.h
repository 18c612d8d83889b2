// Which processor this is, and how fast it runs.
#pragma once

#include <string>

namespace lily {

// As the system names it; empty where it does not.
std::string processor_name();
// The clock of the first core, now: what frequency scaling says, else what the processor's
// description does, which in a virtual machine is the nominal one. 0 where the system does not
// tell.
double processor_hz();

}  // namespace lily
