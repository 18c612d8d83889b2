// Large bodies take turns, so that many clients at once cannot fill the memory.
#pragma once

#include <condition_variable>
#include <mutex>

#include "server/connection.h"
#include "server/limits.h"

namespace lily::server {

class BodyTurns {
 public:
  explicit BodyTurns(const HttpLimits& limits)
      : free_{limits.large_bodies, limits.large_chunked_bodies} {}

  enum class Kind { kSized, kChunked };

  // A turn that is given back when it goes.
  class Turn {
   public:
    Turn() = default;
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    bool taken() const { return turns_ != nullptr; }
    // Waits until the deadline; false: it passed.
    bool take(BodyTurns& turns, Kind kind, Clock::time_point deadline);

   private:
    BodyTurns* turns_ = nullptr;
    Kind kind_ = Kind::kSized;
  };

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  int free_[2];
};

}  // namespace lily::server
