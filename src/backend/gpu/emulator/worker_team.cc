// The threads behind dispatches: see worker_team.h.
#include "backend/gpu/emulator/worker_team.h"

#include <cstdint>

namespace lily::gpu {

WorkerTeam::WorkerTeam(int workers) {
  for (int w = 1; w < workers; ++w) threads_.emplace_back([this, w] { serve(w); });
}

WorkerTeam::~WorkerTeam() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerTeam::run(const std::function<void(int)>& job) {
  if (!threads_.empty()) {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    busy_ = static_cast<int>(threads_.size());
    ++round_;
    wake_.notify_all();
  }
  job(0);
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return busy_ == 0; });
}

void WorkerTeam::serve(int worker) {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    const std::function<void(int)>& job = *job_;
    lock.unlock();
    job(worker);
    lock.lock();
    if (--busy_ == 0) idle_.notify_one();
  }
}

}  // namespace lily::gpu
