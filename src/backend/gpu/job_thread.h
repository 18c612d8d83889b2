// A thread of its own for jobs that come one after the other.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace lily::gpu {

class JobThread {
 public:
  JobThread();
  // Does what was pushed before it ends.
  ~JobThread();
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  void push(std::function<void()> job);
  // Until all that was pushed so far is done.
  void run_dry();

 private:
  void serve();
  std::mutex mutex_;
  std::condition_variable wake_, dry_;
  std::deque<std::function<void()>> jobs_;  // The first is the one being done.
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lily::gpu
