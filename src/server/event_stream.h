// Server-sent events: framing, and a comment where nothing else was said for a while.
#pragma once

#include <string_view>

#include "server/http.h"

namespace lily::server {

class EventStream {
 public:
  explicit EventStream(HttpExchange& exchange) : exchange_(exchange) {}

  void begin();
  // One event; `data` has no line ends (dump_json's output has none).
  void send(std::string_view data, std::string_view event = {});
  // A comment if the last event is kKeepAlive ago. Returns when it wants to be asked again.
  std::chrono::milliseconds keep_alive();
  void end();

 private:
  HttpExchange& exchange_;
  Clock::time_point last_;
};

}  // namespace lily::server
