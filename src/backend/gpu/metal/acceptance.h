// What a Mac says of itself and of the kernels' text: for the report that its owner can send.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace lily::gpu::metal {

struct MachineFacts {
  std::string gpu;
  std::vector<std::string> families = {};   // MTLGPUFamily names that it belongs to.
  std::vector<std::string> languages = {};  // That the system knows.
  std::uint64_t max_buffer_bytes = 0, working_set_bytes = 0;
};

struct Compiled {
  std::string file, language;  // "4.0", or "4.0, tensor operations"
  int n_kernels = 0;           // That became pipelines.
  double seconds = 0;
  std::string error = {};  // Empty: all of them.
};

// kUnsupported where there is no Metal.
Result<MachineFacts> machine_facts();
// Every kernel file in every language, those that the system does not know too: what it says of
// them.
Result<std::vector<Compiled>> compile_everything();

}  // namespace lily::gpu::metal
