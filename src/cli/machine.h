// What `doctor` says about the machine: processor, cores, memory, and where packed images can be
// written.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"

namespace lily::cli {

struct Machine {
  std::string cpu;  // As the system names it; empty where it does not.
  int cores = 0;    // That this process may use.
  std::uint64_t memory_bytes = 0;
  Path cache_folder;  // Empty: there is no place for one.
  bool cache_writable = false;
  std::uint64_t disk_free_bytes = 0;  // Where the cache folder is or would be.
};

Machine describe_machine();

// What this process holds now, as the system counts it; 0 where the system does not say.
struct ProcessMemory {
  std::uint64_t resident_bytes = 0;   // A mapped image's pages included.
  std::uint64_t anonymous_bytes = 0;  // No file stands behind them.
};

ProcessMemory process_memory();

}  // namespace lily::cli
