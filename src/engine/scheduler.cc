// The queue, the thread, and what is counted.
#include "engine/scheduler.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/answer.h"

namespace lily {

class Scheduler::Loop {
 public:
  Loop(Engine& engine, Engine::Impl& impl, const SchedulerOptions& options) : engine_(engine), impl_(impl), options_(options) {
    thread_ = std::thread([this] { run(); });
  }
  ~Loop() {
    drain(std::chrono::milliseconds(0));
    thread_.join();
  }

  Result<std::shared_ptr<std::atomic<bool>>> submit(GenerateRequest request, OnDone on_done);
  void drain(std::chrono::milliseconds grace);
  SchedulerStats stats() const;

 private:
  struct Job {
    GenerateRequest request;
    OnDone on_done;
    std::shared_ptr<std::atomic<bool>> cancel;
  };

  void run();
  std::optional<Job> next();
  void serve(Job& job);
  void count(const Result<GenerateResult>& result);

  Engine& engine_;
  Engine::Impl& impl_;
  const SchedulerOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  std::shared_ptr<std::atomic<bool>> running_;  // The wish of the one that runs.
  bool closed_ = false;
  SchedulerStats stats_;
  std::thread thread_;
};

Result<std::shared_ptr<std::atomic<bool>>> Scheduler::Loop::submit(GenerateRequest request, OnDone on_done) {
  LILY_RETURN_IF_ERROR(check_request(impl_, request));
  const std::lock_guard lock(mutex_);
  if (closed_) return Error{ErrorCode::kBusy, "the server is shutting down and takes no more requests"};
  if (std::ssize(waiting_) >= options_.max_waiting) {
    ++stats_.refused;
    return Error{ErrorCode::kBusy, "the queue is full: " + std::to_string(waiting_.size()) + " requests wait, at most " +
                                       std::to_string(options_.max_waiting)};
  }
  auto wish = std::make_shared<std::atomic<bool>>(false);
  request.cancel = wish.get();
  waiting_.push_back({std::move(request), std::move(on_done), wish});
  ++stats_.submitted;
  changed_.notify_all();
  return wish;
}

void Scheduler::Loop::drain(std::chrono::milliseconds grace) {
  std::unique_lock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
  const auto idle = [this] { return waiting_.empty() && !running_; };
  if (changed_.wait_for(lock, grace, idle)) return;
  for (const Job& job : waiting_) job.cancel->store(true);
  if (running_) running_->store(true);
  changed_.wait(lock, idle);
}

SchedulerStats Scheduler::Loop::stats() const {
  const std::lock_guard lock(mutex_);
  SchedulerStats out = stats_;
  out.waiting = static_cast<int>(waiting_.size());
  out.running = running_ ? 1 : 0;
  return out;
}

std::optional<Scheduler::Loop::Job> Scheduler::Loop::next() {
  std::unique_lock lock(mutex_);
  running_.reset();
  changed_.notify_all();
  changed_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
  if (waiting_.empty()) return std::nullopt;
  Job job = std::move(waiting_.front());
  waiting_.pop_front();
  running_ = job.cancel;
  return job;
}

void Scheduler::Loop::run() {
  while (auto job = next()) serve(*job);
}

void Scheduler::Loop::serve(Job& job) {
  auto result = engine_.session().generate(job.request);
  count(result);
  job.on_done(std::move(result));
}

void Scheduler::Loop::count(const Result<GenerateResult>& result) {
  const std::lock_guard lock(mutex_);
  if (!result) {
    ++stats_.failed;
    return;
  }
  ++(result->finish == FinishReason::kCancelled ? stats_.cancelled : stats_.finished);
  stats_.generated_tokens += result->tokens.size();
  stats_.reused_tokens += static_cast<std::uint64_t>(result->cached_tokens);
  stats_.prompt_tokens += static_cast<std::uint64_t>(result->prompt_tokens - result->cached_tokens);
  stats_.prefix_hits += result->cached_tokens > 0;
}

Result<std::unique_ptr<Scheduler>> Scheduler::start(Engine& engine, const SchedulerOptions& options) {
  if (options.max_waiting < 0) {
    return Error{ErrorCode::kInvalidArgument, "max_waiting: " + std::to_string(options.max_waiting) + ", expected 0 or more"};
  }
  if (options.checkpoint_every_tokens < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 "checkpoint_every_tokens: " + std::to_string(options.checkpoint_every_tokens) + ", expected 1 or more"};
  }
  return std::unique_ptr<Scheduler>(new Scheduler(std::make_unique<Loop>(engine, *engine.impl_, options)));
}

Scheduler::Scheduler(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
Scheduler::~Scheduler() = default;

Result<ServeHandle> Scheduler::submit(GenerateRequest request, OnDone on_done) {
  LILY_TRY(auto wish, loop_->submit(std::move(request), std::move(on_done)));
  return ServeHandle(std::move(wish));
}

void Scheduler::drain(std::chrono::milliseconds grace) { loop_->drain(grace); }
SchedulerStats Scheduler::stats() const { return loop_->stats(); }

}  // namespace lily
