// Runs kernels on the CPU as a GPU would: threads as fibers, simdgroups, barriers, threadgroup
// memory. It is the backend that every machine has, and the judge of the kernels: what a GPU would
// silently get wrong is an error here.
//
//   Found always: lanes that meet at different places, a barrier that some never reach, threads
//   after which none can go on; what is read of threadgroup memory before it is written is NaN.
//   With ThreadSanitizer: every pair of accesses that no barrier orders, inside a group, between
//   groups, between dispatches. With `observe`: accesses outside the buffers, what each dispatch
//   read and wrote, and dispatches that depend on each other with no barrier() between. With
//   AddressSanitizer: accesses outside heap blocks and past threadgroup memory.
//
// Dispatches run at once, one after the other; groups of one run on all cores. One caller at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/gpu/kernel.h"
#include "base/result.h"

namespace lily::gpu {

// The order in which lanes of a group take turns and groups of a dispatch start. Results must not
// depend on it.
enum class LaneOrder { kForward, kReverse, kShuffled };

struct EmulatorOptions {
  int workers =
      0;  // OS threads; 0: one per core. Always one with observe, and with ThreadSanitizer.
  LaneOrder order = LaneOrder::kForward;
  std::uint64_t seed = 0;  // kShuffled: another shuffle per seed and dispatch
  bool observe = false;    // Builds with tests; kUnsupported with ThreadSanitizer.
};

struct Dispatch {
  const Kernel* kernel;
  std::span<const std::byte> args;
  Grid groups;
  std::uint32_t threads;  // of a group
};

// [begin, end) of device addresses, merged and sorted.
struct AddressRange {
  std::uintptr_t begin, end;
  bool operator==(const AddressRange&) const = default;
};

// What one observed dispatch did to one piece of memory.
struct BufferTraffic {
  std::string buffer;
  std::uint64_t bytes_read = 0, bytes_written = 0;      // summed over lanes
  std::uint64_t unique_read = 0, unique_written = 0;    // each byte once
  std::uint64_t sectors_read = 0, sectors_written = 0;  // 32-byte sectors, summed over simdgroup
                                                        // instructions: what a GPU would fetch
  std::uint64_t group_read = 0, group_written = 0;      // bytes of sectors, each once a group
};

struct DispatchRecord {
  const Kernel* kernel;
  std::vector<AddressRange> reads, writes;
  std::vector<BufferTraffic> traffic;
};

// Two dispatches in one epoch, of which at least one wrote what the other touched.
struct Hazard {
  std::size_t first, second;  // Index in records().
  AddressRange where;
  std::string message;  // "head reads 'h' + 128, which embed wrote, and no barrier is between"
};

class Emulator {
 public:
  static Result<std::unique_ptr<Emulator>> create(const EmulatorOptions& options);
  ~Emulator();

  // Memory that kernels may touch. Pieces are disjoint; a name appears in reports.
  void add_memory(const void* address, std::size_t bytes, std::string name);
  void remove_memory(const void* address);

  // kDevice: the kernel broke a rule; the message names the kernel, the places in its source and
  // the thread. After an error the contents of what it wrote are undefined, the emulator goes on.
  Result<void> dispatch(const Dispatch& dispatch);
  template <class Args>
  Result<void> run(const Kernel& kernel, const Args& args, Grid groups, std::uint32_t threads) {
    return dispatch({&kernel, std::as_bytes(std::span(&args, 1)), groups, threads});
  }

  // Dispatches before it are ordered before dispatches after it. Without one they are concurrent on
  // a device.
  void barrier();

  // With observe: one record a dispatch since the last clear_records().
  const std::vector<DispatchRecord>& records() const;
  const std::vector<Hazard>& hazards() const;
  void clear_records();

 private:
  struct State;
  explicit Emulator(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lily::gpu
