// Keeps weights wired between answers: the system lets go of a GPU's memory soon after the GPU went
// idle, residency set or not, and the first pass of the next answer would wait for 20 GB of pages.
// So residency is asked for again while memory was used lately, and no longer: a chat that is left
// open overnight does not hold the Mac's memory.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "backend/gpu/metal/memory.h"

namespace lily::gpu::metal {

struct ResidencyTimes {
  std::chrono::milliseconds every{500};
  std::chrono::milliseconds keep{180'000};  // Behind the last use; what llama.cpp keeps it for.
};

class ResidencyKeeper {
 public:
  ResidencyKeeper(std::shared_ptr<Memory> memory, const ResidencyTimes& times);
  ~ResidencyKeeper();
  ResidencyKeeper(const ResidencyKeeper&) = delete;
  ResidencyKeeper& operator=(const ResidencyKeeper&) = delete;

  // A pass is submitted: it asks at once where the memory had been given up.
  void used();

 private:
  using Clock = std::chrono::steady_clock;
  void serve();

  const std::shared_ptr<Memory> memory_;
  const ResidencyTimes times_;
  std::mutex mutex_;
  std::condition_variable wake_;
  Clock::time_point until_ = Clock::time_point::min();
  bool asking_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace lily::gpu::metal
