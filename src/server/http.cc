// Bodies with a bound and a deadline, and replies whole or in chunks.
#include "server/http.h"

#include <algorithm>
#include <array>

#include "server/body_turns.h"
#include "server/chunked_body.h"

namespace lily::server {
namespace {

struct StatusRow {
  int status;
  std::string_view text;
};
constexpr std::array kStatuses{
    StatusRow{100, "Continue"},
    StatusRow{200, "OK"},
    StatusRow{204, "No Content"},
    StatusRow{400, "Bad Request"},
    StatusRow{401, "Unauthorized"},
    StatusRow{403, "Forbidden"},
    StatusRow{404, "Not Found"},
    StatusRow{405, "Method Not Allowed"},
    StatusRow{408, "Request Timeout"},
    StatusRow{413, "Content Too Large"},
    StatusRow{414, "URI Too Long"},
    StatusRow{415, "Unsupported Media Type"},
    StatusRow{429, "Too Many Requests"},
    StatusRow{431, "Request Header Fields Too Large"},
    StatusRow{499, "Client Closed Request"},
    StatusRow{500, "Internal Server Error"},
    StatusRow{501, "Not Implemented"},
    StatusRow{503, "Service Unavailable"},
    StatusRow{505, "HTTP Version Not Supported"},
    StatusRow{507, "Insufficient Storage"},
};

std::string hex(std::size_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  do {
    out.insert(out.begin(), kDigits[value % 16]);
    value /= 16;
  } while (value > 0);
  return out;
}

HttpFault too_large(std::string found, std::size_t most) {
  return {413, "body of " + found + " bytes, at most " + std::to_string(most) + " are taken"};
}

const HttpFault kTooManyLarge{503, "too many large bodies are being read; try again"};

}  // namespace

std::string_view status_text(int status) {
  const auto row = std::find_if(kStatuses.begin(), kStatuses.end(),
                                [&](const StatusRow& one) { return one.status == status; });
  return row == kStatuses.end() ? "Unknown" : row->text;
}

HttpExchange::HttpExchange(Connection& connection, HttpHead head, std::string behind_head,
                           const HttpLimits& limits, BodyTurns& turns)
    : connection_(connection),
      head_(std::move(head)),
      pending_(std::move(behind_head)),
      limits_(limits),
      turns_(turns),
      body_read_(head_.body == HttpHead::Body::kNone ||
                 (head_.body == HttpHead::Body::kLength && head_.content_length == 0)),
      keep_alive_(head_.keep_alive) {}

std::optional<HttpFault> HttpExchange::read_body(std::string& out) {
  if (body_read_) return {};
  const bool sized = head_.body == HttpHead::Body::kLength;
  if (sized && head_.content_length > limits_.body_bytes) {
    return too_large(std::to_string(head_.content_length), limits_.body_bytes);
  }
  if (head_.expects_continue)
    connection_.write("HTTP/1.1 100 Continue\r\n\r\n", limits_.write_time);
  const auto deadline = Clock::now() + limits_.body_time;
  auto fault = sized ? read_sized(out, deadline) : read_chunked(out, deadline);
  body_read_ = !fault;
  return fault;
}

std::optional<HttpFault> HttpExchange::more(Clock::time_point deadline) {
  switch (connection_.read(pending_, deadline)) {
    case Connection::Read::kBytes:
      return {};
    case Connection::Read::kClosed:
      gone_ = true;
      return HttpFault{400, "the connection ended before the body did"};
    case Connection::Read::kLate:
      break;
  }
  return HttpFault{408, "the body did not arrive in time"};
}

std::optional<HttpFault> HttpExchange::read_sized(std::string& out, Clock::time_point deadline) {
  const auto length = static_cast<std::size_t>(head_.content_length);
  BodyTurns::Turn turn;
  if (length > limits_.small_body_bytes && !turn.take(turns_, BodyTurns::Kind::kSized, deadline)) {
    return kTooManyLarge;
  }
  out.reserve(length);
  for (;;) {
    const auto size = std::min(length - out.size(), pending_.size());
    out.append(pending_, 0, size);
    pending_.erase(0, size);
    if (out.size() == length) return {};
    if (auto fault = more(deadline)) return fault;
  }
}

std::optional<HttpFault> HttpExchange::read_chunked(std::string& out, Clock::time_point deadline) {
  BodyTurns::Turn turn;
  ChunkedBody body;
  for (;;) {
    std::string_view in = pending_;
    const auto state = body.feed(in, out);
    pending_.erase(0, pending_.size() - in.size());
    if (out.size() > limits_.chunked_body_bytes) {
      return too_large("over " + std::to_string(limits_.chunked_body_bytes),
                       limits_.chunked_body_bytes);
    }
    if (state == ChunkedBody::State::kBroken) return HttpFault{400, "the body's chunks are broken"};
    if (state == ChunkedBody::State::kDone) return {};
    if (out.size() > limits_.small_chunked_bytes && !turn.taken() &&
        !turn.take(turns_, BodyTurns::Kind::kChunked, deadline)) {
      return kTooManyLarge;
    }
    if (auto fault = more(deadline)) return fault;
  }
}

void HttpExchange::add_header(std::string name, std::string value) {
  headers_.emplace_back(std::move(name), std::move(value));
}

void HttpExchange::send(std::string_view bytes) {
  if (!gone_ && !connection_.write(bytes, limits_.write_time)) gone_ = true;
}

std::string HttpExchange::status_line_and_headers(int status, std::string_view content_type) const {
  std::string out = "HTTP/1.1 ";
  out.append(std::to_string(status)).append(" ").append(status_text(status)).append("\r\n");
  if (!content_type.empty()) out.append("Content-Type: ").append(content_type).append("\r\n");
  for (const auto& [name, value] : headers_) {
    out.append(name).append(": ").append(value).append("\r\n");
  }
  return out.append(keep_alive_ ? "" : "Connection: close\r\n");
}

void HttpExchange::reply(const HttpReply& reply) {
  // A body that nobody read would be taken for the next request.
  if (!body_read_) keep_alive_ = false;
  for (const auto& header : reply.headers) headers_.push_back(header);
  std::string out = status_line_and_headers(reply.status, reply.content_type);
  out.append("Content-Length: ").append(std::to_string(reply.body.size())).append("\r\n\r\n");
  if (head_.method != "HEAD") out.append(reply.body);
  status_ = reply.status;
  done_ = true;
  send(out);
}

void HttpExchange::begin_stream(int status, std::string_view content_type) {
  status_ = status;
  std::string out = status_line_and_headers(status, content_type);
  send(out.append("Cache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n"));
}

bool HttpExchange::write(std::string_view piece) {
  if (piece.empty()) return !gone_;
  std::string out = hex(piece.size());
  send(out.append("\r\n").append(piece).append("\r\n"));
  return !gone_;
}

void HttpExchange::end_stream() {
  done_ = true;
  send("0\r\n\r\n");
}

}  // namespace lily::server
