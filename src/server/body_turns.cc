// A counter for each kind of body, and a queue before it.
#include "server/body_turns.h"

namespace lily::server {

bool BodyTurns::Turn::take(BodyTurns& turns, Kind kind, Clock::time_point deadline) {
  std::unique_lock lock(turns.mutex_);
  int& free = turns.free_[static_cast<int>(kind)];
  if (!turns.freed_.wait_until(lock, deadline, [&] { return free > 0; })) return false;
  --free;
  turns_ = &turns;
  kind_ = kind;
  return true;
}

BodyTurns::Turn::~Turn() {
  if (turns_ == nullptr) return;
  {
    const std::lock_guard lock(turns_->mutex_);
    ++turns_->free_[static_cast<int>(kind_)];
  }
  turns_->freed_.notify_all();
}

}  // namespace lily::server
