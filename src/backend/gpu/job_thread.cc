// The loop behind a JobThread.
#include "backend/gpu/job_thread.h"

#include <utility>

namespace lily::gpu {

JobThread::JobThread() : thread_([this] { serve(); }) {}

JobThread::~JobThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void JobThread::push(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void JobThread::run_dry() {
  std::unique_lock lock(mutex_);
  dry_.wait(lock, [this] { return jobs_.empty(); });
}

void JobThread::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const std::function<void()>& job = jobs_.front();  // push_back leaves it where it is.
    lock.unlock();
    job();
    lock.lock();
    jobs_.pop_front();
    if (jobs_.empty()) dry_.notify_all();
  }
}

}  // namespace lily::gpu
