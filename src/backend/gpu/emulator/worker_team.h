// OS threads that share the groups of a dispatch; the caller is one of them.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lily::gpu {

class WorkerTeam {
 public:
  explicit WorkerTeam(int workers);
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }
  // job(worker) on every worker, 0 being the caller; returns when all have.
  void run(const std::function<void(int)>& job);

 private:
  void serve(int worker);
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  const std::function<void(int)>* job_ = nullptr;
  std::uint64_t round_ = 0;
  int busy_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lily::gpu
