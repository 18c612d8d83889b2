// The thread pool: every task once, on as many threads as asked, and silence when there is nothing
// to do.
#include "backend/cpu/thread_pool.h"

#include "base/cores.h"

#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
#include <thread>

namespace lily::cpu {
namespace {

TEST(CpuThreadPool, RunsOnEveryThreadOnce) {
  for (const int n : {1, 2, 5}) {
    ThreadPool pool(n);
    ASSERT_EQ(pool.size(), n);
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(n));
    pool.run([&](int thread, int n_threads) {
      EXPECT_EQ(n_threads, n);
      ++calls[static_cast<std::size_t>(thread)];
    });
    for (const auto& c : calls) EXPECT_EQ(c, 1);
  }
}

TEST(CpuThreadPool, EveryTaskRunsOnce) {
  ThreadPool pool(3);
  for (const int n_tasks : {0, 1, 2, 3, 4, 1000}) {
    std::vector<int> counts(static_cast<std::size_t>(n_tasks), 0);
    pool.parallel_for(n_tasks, [&](std::int64_t task, int thread) {
      EXPECT_TRUE(thread >= 0 && thread < 3);
      ++counts[static_cast<std::size_t>(task)];
    });
    EXPECT_EQ(counts, std::vector<int>(static_cast<std::size_t>(n_tasks), 1));
  }
}

TEST(CpuThreadPool, ResultsOfAJobAreSeenByTheNext) {
  ThreadPool pool(4);
  std::vector<std::int64_t> values(64, 0);
  for (int round = 1; round <= 2000; ++round) {
    pool.parallel_for(64, [&](std::int64_t task) {
      ++values[static_cast<std::size_t>((task * 7 + round) % 64)];
    });
  }
  EXPECT_EQ(values, std::vector<std::int64_t>(64, 2000));
}

TEST(CpuThreadPool, CountsHandOversAndOneTaskNeedsNone) {
  ThreadPool pool(2);
  pool.parallel_for(1, [](std::int64_t) {});
  EXPECT_EQ(pool.barriers(), 0u);
  pool.parallel_for(2, [](std::int64_t) {});
  pool.run([](int, int) {});
  EXPECT_EQ(pool.barriers(), 2u);
}

double process_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

TEST(CpuThreadPool, IdleThreadsSleepAndWakeAgain) {
  ThreadPool pool(4);
  pool.run([](int, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = process_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(process_seconds() - before, 0.05);
  std::atomic<int> calls = 0;
  pool.run([&](int, int) { ++calls; });
  EXPECT_EQ(calls, 4);
}

TEST(CpuThreadPool, UsesTheCoresThereAre) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_EQ(ThreadPool(0).size(), usable_cores());
}

}  // namespace
}  // namespace lily::cpu
