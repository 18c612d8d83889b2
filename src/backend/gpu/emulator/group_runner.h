// Runs one threadgroup at a time: its lanes as fibers on the calling OS thread, and their meetings.
//
// A lane runs until it meets others; then the next lane that can run takes over, in the order of
// the job. The last to come does what the meeting is for and all go on. A lane that never waits
// costs no switch: the next one runs on the same stack.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/gpu/emulator/fiber.h"
#include "backend/gpu/emulator/lanes.h"
#include "backend/gpu/emulator/private_memory.h"
#include "backend/gpu/kernel.h"

namespace lily::gpu {

struct GroupJob {
  const Kernel* kernel = nullptr;
  LaneFunction run = nullptr;
  const void* args = nullptr;
  Grid groups;
  std::uint32_t threads = 0;
  void* epoch_begin =
      nullptr;  // ThreadSanitizer: what lanes begin after, and what they are before.
  void* epoch_end = nullptr;
};

class GroupRunner {
 public:
  GroupRunner();
  ~GroupRunner();
  GroupRunner(const GroupRunner&) = delete;
  GroupRunner& operator=(const GroupRunner&) = delete;

  // The runner whose lane is running on this OS thread.
  static GroupRunner* current();

  // `order`: a permutation of the job's threads. False: error() says what the kernel did wrong.
  bool run(const GroupJob& job, const std::uint32_t (&group)[3],
           const std::vector<std::uint16_t>& order);
  const std::string& error() const { return error_; }

  // From the running lane.
  void meet_lanes(void* brought, Combine combine, bool ordered, const Site& site);
  void meet_group(const Site& site);
  [[noreturn]] void fail(std::string&& what);
  std::uint32_t thread() const { return current_; }
  bool is_stack(const void* address) const;
  // Offset in threadgroup memory, or -1.
  std::int64_t shared_offset(const void* address) const;

 private:
  struct Lane {
    Fiber* fiber = nullptr;
    bool waits = false, done = false;
    Site site{};
  };
  struct Simd {
    std::uint32_t come = 0, turn = 0;
    std::uint32_t first = 0;  // The lane whose site the others' are held to.
    Combine combine = nullptr;
    void* brought[kSimdLanes];
  };
  static void entry();
  [[noreturn]] void work();
  void start_group(const GroupJob& job, const std::uint32_t (&group)[3],
                   const std::vector<std::uint16_t>& order);
  void make_shared();
  void run_lane();
  int next_ready() const;
  void set_ready(std::uint32_t lane);
  void wait(const Site& site);
  void resume(std::uint32_t lane, Fiber& from);
  Fiber* make_fiber();
  Fiber* take_fiber();
  void give_up_fibers();
  void leave(Fiber& from);
  std::string describe(const char* what, std::uint32_t other) const;
  std::string describe_standstill() const;
  std::string place(std::uint32_t lane) const;

  const GroupJob* job_ = nullptr;
  std::uint32_t group_[3] = {};
  std::uint32_t current_ = 0, done_ = 0, at_barrier_ = 0;
  std::uint32_t barrier_first_ = 0, barrier_turn_ = 0;
  std::vector<Lane> lanes_;
  std::vector<std::uint16_t> order_, position_;      // Lane of a turn, turn of a lane.
  std::uint64_t ready_[kMaxGroupThreads / 64] = {};  // By turn: not started, or able to go on.
  Simd simds_[kMaxGroupThreads / kSimdLanes];
  PrivateMemory memory_;
  unsigned char* shared_ = nullptr;
  // ThreadSanitizer: two words for the group, then two a simdgroup. Meetings alternate between
  // them: who leaves one late must not learn what others did on their way to the next.
  unsigned char* sync_ = nullptr;
  Fiber main_;
  void* main_tsan_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_fibers_;
  std::size_t next_fiber_ = 0;  // ThreadSanitizer: whose turn it is.
  std::string error_;
};

}  // namespace lily::gpu
