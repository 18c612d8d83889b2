// The thread that asks.
#include "backend/gpu/metal/residency.h"

#include <utility>

namespace lily::gpu::metal {

ResidencyKeeper::ResidencyKeeper(std::shared_ptr<Memory> memory, const ResidencyTimes& times)
    : memory_(std::move(memory)), times_(times), thread_([this] { serve(); }) {}

ResidencyKeeper::~ResidencyKeeper() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void ResidencyKeeper::used() {
  const std::lock_guard lock(mutex_);
  until_ = Clock::now() + times_.keep;
  if (!std::exchange(asking_, true)) wake_.notify_one();
}

void ResidencyKeeper::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || asking_; });
    while (!stop_ && Clock::now() < until_) {
      lock.unlock();
      memory_->request_residency();
      lock.lock();
      wake_.wait_for(lock, times_.every, [this] { return stop_; });
    }
    asking_ = false;
    if (stop_) return;
  }
}

}  // namespace lily::gpu::metal
