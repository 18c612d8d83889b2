// Hand-over of jobs: an epoch counter that workers watch, a count of those still working that the
// caller watches.
#include "backend/cpu/thread_pool.h"

#include <system_error>

#include "base/cores.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lily::cpu {
namespace {

// A pause is 40 to 140 cycles on x86 and about one on ARM: 20 to 50 microseconds.
#if defined(__x86_64__)
constexpr int kSpins = 1000;
void pause() {
  _mm_pause();
}
#elif defined(__aarch64__)
constexpr int kSpins = 20000;
void pause() {
  __asm__ __volatile__("yield");
}
#else
constexpr int kSpins = 20000;
void pause() {}
#endif

// Returns a value other than `old` as soon as there is one.
std::int32_t await_change(std::atomic<std::int32_t>& value, std::int32_t old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    const std::int32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  start_threads(threads > 0 ? threads : usable_cores());
}

void ThreadPool::start_threads(int threads) {
  try {
    threads_.reserve(static_cast<std::size_t>(threads));
    for (int t = 1; t < threads; ++t) {
      threads_.emplace_back([this, t] { work(t); });
      size_ = t + 1;
    }
  } catch (const std::system_error&) {
    // The system gives no more threads: work goes on with those there are.
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ThreadPool::run_job(Job job) {
  if (size_ == 1) return job.call(job.context, 0, 1);
  ++barriers_;
  job_ = job;
  pending_.store(size_ - 1, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  job.call(job.context, 0, size_);
  for (auto left = pending_.load(std::memory_order_acquire); left != 0;) {
    left = await_change(pending_, left);
  }
}

void ThreadPool::work(int thread) {
  std::int32_t seen = 0;
  for (;;) {
    seen = await_change(epoch_, seen);
    if (stop_.load(std::memory_order_relaxed)) return;
    job_.call(job_.context, thread, size_);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }
}

}  // namespace lily::cpu
