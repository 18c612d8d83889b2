// One streamed answer of /v1/chat/completions as it comes: when its tokens came, how many the
// server counts, how it ended.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/event_reader.h"

namespace lily {

struct ChatUsage {
  int prompt_tokens = 0, completion_tokens = 0;
  std::optional<int> cached_tokens = {};  // Of the prompt, where the server says.
};

class ChatStream {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20;

  // Part of the body, which came at `now`. Errors: what is no stream of chunks, an event that is an
  // error, too much of anything.
  Result<void> add(std::string_view bytes, Clock::time_point now);

  // When each event with text, thinking or a call came.
  const std::vector<Clock::time_point>& times() const { return times_; }
  const std::optional<ChatUsage>& usage() const { return usage_; }
  bool finished() const { return finished_; }  // A finish reason was told.

 private:
  Result<void> take_event(std::string_view data, Clock::time_point now);

  EventReader events_;
  std::size_t n_bytes_ = 0;
  std::vector<Clock::time_point> times_;
  std::optional<ChatUsage> usage_;
  bool finished_ = false;
};

}  // namespace lily
