// Requests of many clients, one engine: a thread of its own runs the passes, in which running answers share rows.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/file.h"
#include "engine/engine.h"

namespace lily {

struct SchedulerOptions {
  int max_waiting = 64;                // Requests that no place is free for; one more is refused.
  int checkpoint_every_tokens = 2048;  // Of a long prompt, where it has no borders; at least.
  Path state_dir = {};                 // Where checkpoints survive a restart; empty: nowhere.
};

// Since the start, but for what runs, waits and is held now.
struct SchedulerStats {
  int running = 0, waiting = 0;
  std::uint64_t submitted = 0, refused = 0, finished = 0, cancelled = 0, failed = 0;
  std::uint64_t prompt_tokens = 0;     // Computed.
  std::uint64_t reused_tokens = 0;     // Of prompts, not computed.
  std::uint64_t generated_tokens = 0;
  std::uint64_t prefix_hits = 0;       // Requests that reused something.
  std::uint64_t evictions = 0, over_budget = 0;
  std::uint64_t checkpoints = 0, checkpoint_bytes = 0;  // Held in memory.
  std::uint64_t disk_bytes = 0;                         // Of state_dir.
};

// A request that was taken. Dropping the handle changes nothing for the request.
class ServeHandle {
 public:
  // From any thread, as often as one likes. The request ends with FinishReason::kCancelled within a step.
  void cancel() { wish_->store(true, std::memory_order_relaxed); }

 private:
  friend class Scheduler;
  explicit ServeHandle(std::shared_ptr<std::atomic<bool>> wish) : wish_(std::move(wish)) {}
  std::shared_ptr<std::atomic<bool>> wish_;
};

class Scheduler {
 public:
  // Called once for each request taken, as its last callback.
  using OnDone = std::function<void(Result<GenerateResult>)>;

  // The engine's passes belong to the scheduler as long as it is there: nobody else touches the engine's session or scores. As many answers
  // run at a time as EngineOptions::n_sequences says.
  static Result<std::unique_ptr<Scheduler>> start(Engine& engine, const SchedulerOptions& options);
  // Cancels what is there.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // From any thread. Callbacks come from the scheduler's thread and must not block, nor call drain(). Errors: as of Session::generate, and
  // kBusy where the queue is full or drain() was called.
  Result<ServeHandle> submit(GenerateRequest request, OnDone on_done);
  // Takes no more requests; returns when those taken have ended, after `grace` by being cancelled.
  void drain(std::chrono::milliseconds grace);
  SchedulerStats stats() const;

 private:
  class Loop;
  explicit Scheduler(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace lily
