// A pass, recorded: launches in order, and the places where everything before has to be finished.
// It names memory and kernels, never a device; device.h replays it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backend/gpu/recorder.h"

namespace lily::gpu {

// The ranges that two launches may not touch at the same time: `later` reads or writes what
// `earlier` wrote, or writes what it read. kIndirect never conflicts.
bool conflict(const Launch& earlier, const Launch& later);

// Where barriers stand: only between launches that conflict, or between any two.
enum class Barriers { kWhereNeeded, kEverywhere };

class Program {
 public:
  // own_kernels: the device may run kernels of its own in place of the launches'.
  explicit Program(Barriers placing = Barriers::kWhereNeeded, bool own_kernels = true)
      : placing_(placing), own_kernels_(own_kernels) {}

  // Puts a barrier before the launch if it conflicts with one since the last barrier. For launches
  // in this order no program has fewer: each barrier is as late as it can be.
  void add(Launch launch);

  std::span<const Launch> launches() const { return launches_; }
  bool own_kernels() const { return own_kernels_; }
  bool barrier_before(std::size_t launch) const { return barrier_before_[launch]; }
  std::size_t barriers() const { return barriers_; }
  // Runs of launches without a barrier between them.
  std::size_t stages() const { return launches_.empty() ? 0 : barriers_ + 1; }
  // Does a launch name memory of the range, as what it reads, as what it writes, as either?
  bool reads(const Range& memory) const;
  bool writes(const Range& memory) const;
  bool names(const Range& memory) const { return reads(memory) || writes(memory); }

 private:
  Barriers placing_;
  bool own_kernels_;
  std::vector<Launch> launches_;
  std::vector<bool> barrier_before_;
  std::size_t barriers_ = 0, stage_start_ = 0;  // The first launch behind the last barrier.
};

}  // namespace lily::gpu
