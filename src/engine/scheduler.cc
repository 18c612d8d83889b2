// The queue, the thread, and who is told what when it ends.
#include "engine/scheduler.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/serving.h"

namespace lily {

class Scheduler::Loop {
 public:
  Loop(Engine::Impl& engine, const SchedulerOptions& options)
      : engine_(engine), options_(options), serving_(engine, {.every_tokens = options.checkpoint_every_tokens, .state_dir = options.state_dir}) {
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
  void run();
  bool wait_for_work();
  std::vector<Job> take_given_up();
  std::optional<Job> take_admitted();
  void publish();

  Engine::Impl& engine_;
  const SchedulerOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex.
  std::deque<Job> waiting_;
  bool closed_ = false;   // Nothing is taken any more,
  bool give_up_ = false;  // and what was taken is cancelled.
  bool idle_ = true;
  int n_admitted_ = 0;    // Whoever has a place.
  std::uint64_t submitted_ = 0, refused_ = 0;
  SchedulerStats served_;

  Serving serving_;  // The thread's own.
  std::thread thread_;
};

Result<std::shared_ptr<std::atomic<bool>>> Scheduler::Loop::submit(GenerateRequest request, OnDone on_done) {
  LILY_RETURN_IF_ERROR(check_request(engine_, request));
  const std::lock_guard lock(mutex_);
  if (closed_) return Error{ErrorCode::kBusy, "the server is shutting down and takes no more requests"};
  // Those for whom there is a place only wait for the thread to look.
  const auto n_places = static_cast<std::ptrdiff_t>(engine_.sampling.size()) - n_admitted_;
  if (std::ssize(waiting_) >= options_.max_waiting + n_places) {
    ++refused_;
    return Error{ErrorCode::kBusy, "the queue is full: " + std::to_string(waiting_.size()) + " requests wait, at most " +
                                       std::to_string(options_.max_waiting)};
  }
  auto wish = std::make_shared<std::atomic<bool>>(false);
  request.cancel = wish.get();
  waiting_.push_back({std::move(request), std::move(on_done), wish});
  ++submitted_;
  idle_ = false;
  changed_.notify_all();
  return wish;
}

void Scheduler::Loop::drain(std::chrono::milliseconds grace) {
  std::unique_lock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
  if (changed_.wait_for(lock, grace, [this] { return idle_; })) return;
  give_up_ = true;
  changed_.wait(lock, [this] { return idle_; });
}

SchedulerStats Scheduler::Loop::stats() const {
  const std::lock_guard lock(mutex_);
  SchedulerStats out = served_;
  out.waiting = static_cast<int>(waiting_.size());
  out.submitted = submitted_;
  out.refused = refused_;
  return out;
}

void Scheduler::Loop::run() {
  while (wait_for_work()) {
    std::vector<Serving::Ended> ended;
    for (Job& job : take_given_up()) ended.push_back(serving_.decline(std::move(job)));
    while (auto job = take_admitted()) serving_.admit(*std::move(job));
    if (!serving_.idle()) {
      for (auto& one : serving_.step()) ended.push_back(std::move(one));
    }
    publish();
    for (auto& one : ended) one.on_done(std::move(one.result));
  }
}

// False: there is none and there will be none.
bool Scheduler::Loop::wait_for_work() {
  std::unique_lock lock(mutex_);
  if (serving_.idle() && waiting_.empty()) {
    idle_ = true;
    changed_.notify_all();
  }
  changed_.wait(lock, [this] { return closed_ || !waiting_.empty() || !serving_.idle(); });
  return !idle_;
}

std::vector<Job> Scheduler::Loop::take_given_up() {
  std::vector<Job> out;
  const std::lock_guard lock(mutex_);
  if (give_up_) serving_.cancel_all();
  for (auto job = waiting_.begin(); job != waiting_.end();) {
    if (!give_up_ && !job->cancel->load(std::memory_order_relaxed)) {
      ++job;
      continue;
    }
    out.push_back(std::move(*job));
    job = waiting_.erase(job);
  }
  return out;
}

// One whose turn it is and who has room.
std::optional<Job> Scheduler::Loop::take_admitted() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty() || !serving_.has_room(waiting_.front().request)) return std::nullopt;
  Job job = std::move(waiting_.front());
  waiting_.pop_front();
  ++n_admitted_;
  return job;
}

void Scheduler::Loop::publish() {
  const std::lock_guard lock(mutex_);
  served_ = serving_.stats();
  n_admitted_ = served_.running;
}

Result<std::unique_ptr<Scheduler>> Scheduler::start(Engine& engine, const SchedulerOptions& options) {
  if (options.max_waiting < 0) {
    return Error{ErrorCode::kInvalidArgument, "max_waiting: " + std::to_string(options.max_waiting) + ", expected 0 or more"};
  }
  if (options.checkpoint_every_tokens < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 "checkpoint_every_tokens: " + std::to_string(options.checkpoint_every_tokens) + ", expected 1 or more"};
  }
  engine.session().clear();
  return std::unique_ptr<Scheduler>(new Scheduler(std::make_unique<Loop>(*engine.impl_, options)));
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
