// A kernel as the host knows it: what every device's loader needs, and the function that the
// emulator calls for each lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lily::gpu {

inline constexpr unsigned kSimdLanes = 32;
inline constexpr unsigned kMaxGroupThreads = 1024;

struct LaneIds {
  std::uint32_t group[3], groups[3];
  std::uint32_t threads;
  std::uint16_t thread, lane, simd;
};
using LaneFunction = void (*)(const void* args, void* shared, const LaneIds& ids);

struct Kernel {
  const char* name;
  std::size_t args_bytes, shared_bytes;
  unsigned max_threads;
  LaneFunction run;
  // The same kernel compiled so that each of its memory accesses is seen; null in builds without
  // tests, and in those with ThreadSanitizer, which sees them itself.
  LaneFunction run_observed;
};

struct Grid {
  std::uint32_t x = 1, y = 1, z = 1;
};

// What the KERNEL macro of the emulator makes; the table below joins the two builds of a kernel.
struct KernelEntry {
  const char* name;
  std::size_t args_bytes, shared_bytes;
  unsigned max_threads;
  LaneFunction run;
};

// Every kernel of kernels/list.h. find_kernel: null when there is none of that name.
std::span<const Kernel> kernels();
const Kernel* find_kernel(std::string_view name);
// The file of kernels/ that holds it, "embed.cc"; empty when there is none.
std::string_view kernel_file(std::string_view name);

}  // namespace lily::gpu
