// One request and its reply over HTTP/1.1, as handlers see them.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/connection.h"
#include "server/http_head.h"
#include "server/limits.h"

namespace lily::server {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpReply {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  HttpHeaders headers = {};
};

class BodyTurns;

class HttpExchange {
 public:
  HttpExchange(Connection& connection, HttpHead head, std::string behind_head,
               const HttpLimits& limits, BodyTurns& turns);

  const HttpHead& head() const { return head_; }
  // Reads the body, once. Faults: 400 (broken framing), 408, 413, 503 (too many large bodies).
  std::optional<HttpFault> read_body(std::string& out);

  // Headers that every reply of this exchange carries.
  void add_header(std::string name, std::string value);
  void reply(const HttpReply& reply);
  // A reply in pieces. write: false once the client is gone, and from then on.
  void begin_stream(int status, std::string_view content_type);
  bool write(std::string_view piece);
  void end_stream();
  void give_up() { gone_ = true; }  // Whatever was promised: the connection closes.

  // Waits for `wake`, as Connection::wait does.
  Connection::Woken wait(Wake& wake, std::chrono::milliseconds time) {
    return connection_.wait(wake, time);
  }

  int status() const { return status_; }  // 0: nothing was sent.
  bool is_done() const { return done_; }
  bool client_is_gone() const { return gone_; }
  bool can_go_on() const { return keep_alive_ && !gone_; }  // To the connection's next request.
  std::string take_rest() { return std::move(pending_); }   // What was read of it.

 private:
  std::optional<HttpFault> read_sized(std::string& out, Clock::time_point deadline);
  std::optional<HttpFault> read_chunked(std::string& out, Clock::time_point deadline);
  std::optional<HttpFault> more(Clock::time_point deadline);
  std::string status_line_and_headers(int status, std::string_view content_type) const;
  void send(std::string_view bytes);

  Connection& connection_;
  HttpHead head_;
  std::string pending_;  // Bytes that were read and not yet used.
  const HttpLimits& limits_;
  BodyTurns& turns_;
  HttpHeaders headers_;
  bool body_read_;
  bool keep_alive_;
  bool gone_ = false;
  bool done_ = false;
  int status_ = 0;
};

std::string_view status_text(int status);

}  // namespace lily::server
