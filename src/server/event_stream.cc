// Lines of events.
#include "server/event_stream.h"

namespace lily::server {

void EventStream::begin() {
  exchange_.begin_stream(200, "text/event-stream; charset=utf-8");
  last_ = Clock::now();
}

void EventStream::send(std::string_view data, std::string_view event) {
  std::string out;
  if (!event.empty()) out.append("event: ").append(event).append("\n");
  exchange_.write(out.append("data: ").append(data).append("\n\n"));
  last_ = Clock::now();
}

std::chrono::milliseconds EventStream::keep_alive() {
  const auto silent = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - last_);
  if (silent < kKeepAlive) return kKeepAlive - silent;
  exchange_.write(": still at work\n\n");
  last_ = Clock::now();
  return kKeepAlive;
}

void EventStream::end() {
  exchange_.end_stream();
}

}  // namespace lily::server
