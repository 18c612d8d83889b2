// A fixed set of threads that step through a pass together. The caller is thread 0 and works too;
// the others spin for some tens of microseconds between two jobs and then sleep, so an idle process
// burns nothing. Nothing is allocated after construction. One caller at a time; a job must not
// start another.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace lily::cpu {

class ThreadPool {
 public:
  explicit ThreadPool(
      int threads);  // 0: usable_cores(). Fewer than asked where the system refuses more.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }
  // Jobs that all threads took part in: what a pass pays in hand-overs.
  std::uint64_t barriers() const { return barriers_; }

  // fn(thread, n_threads) on every thread; returns when all are done.
  template <typename F>
  void run(F&& fn) {
    using Fn = std::remove_reference_t<F>;
    run_job(
        {[](void* f, int thread, int n) { (*static_cast<Fn*>(f))(thread, n); }, address_of(fn)});
  }

  // fn(task) or fn(task, thread) for every task 0 .. n_tasks - 1, each once, handed out in
  // ascending order to whoever is free. One task runs on the caller without waking anybody.
  template <typename F>
  void parallel_for(std::int64_t n_tasks, F&& fn) {
    const auto call = [&fn](std::int64_t task, int thread) {
      if constexpr (std::is_invocable_v<F&, std::int64_t, int>)
        fn(task, thread);
      else
        fn(task);
    };
    if (n_tasks <= 1 || size_ == 1) {
      for (std::int64_t task = 0; task < n_tasks; ++task) call(task, 0);
      return;
    }
    next_task_.store(0, std::memory_order_relaxed);
    run([&](int thread, int) {
      for (;;) {
        const std::int64_t task = next_task_.fetch_add(1, std::memory_order_relaxed);
        if (task >= n_tasks) return;
        call(task, thread);
      }
    });
  }

 private:
  struct Job {
    void (*call)(void*, int, int) = nullptr;
    void* context = nullptr;
  };
  template <typename Fn>
  static void* address_of(Fn& fn) {
    return const_cast<void*>(static_cast<const void*>(std::addressof(fn)));
  }

  void run_job(Job job);
  void work(int thread);
  void start_threads(int threads);

  int size_ = 1;
  std::uint64_t barriers_ = 0;
  Job job_;  // Written before epoch_ rises, read after.
  std::vector<std::thread> threads_;
  // Each on its own cache line: all threads spin on epoch_, all finish on pending_, all draw from
  // next_task_.
  alignas(64) std::atomic<std::int32_t> epoch_{0};  // Rises by one a job.
  alignas(64) std::atomic<std::int32_t> pending_{
      0};  // Threads still at work, the caller not counted.
  alignas(64) std::atomic<std::int64_t> next_task_{0};
  alignas(64) std::atomic<bool> stop_{false};
};

}  // namespace lily::cpu
