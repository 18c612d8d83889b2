// The head of an HTTP/1.1 request, read strictly: what two readers could understand differently is
// refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lily::server {

inline constexpr std::size_t kMaxHeadBytes = std::size_t{32} << 10;
inline constexpr std::size_t kMaxTargetBytes = std::size_t{4} << 10;
inline constexpr std::size_t kMaxHeaders = 100;

// Why a request cannot be taken, before anything knows what it asks for.
struct HttpFault {
  int status;
  std::string message;
};

struct HttpHead {
  enum class Body { kNone, kLength, kChunked };

  std::string method;                                        // As sent: methods are upper case.
  std::string path;                                          // Percent signs decoded.
  std::string query;                                         // Behind the question mark, as sent.
  std::vector<std::pair<std::string, std::string>> headers;  // Names in lower case.
  Body body = Body::kNone;
  std::uint64_t content_length = 0;  // Of Body::kLength.
  bool keep_alive = true;
  bool expects_continue = false;  // The client waits for "100 Continue" before it sends the body.

  const std::string* find(std::string_view name) const;  // The first of that name.
};

// Bytes of the head at the start of `text`, its empty line included; 0: not all of it is there yet.
std::size_t head_size(std::string_view text);

// Reads a whole head. Faults: 400, 414 (target too long), 415 (an encoded body), 431 (too many
// headers), 501 (another transfer coding), 505.
std::optional<HttpFault> parse_http_head(std::string_view text, HttpHead& out);

}  // namespace lily::server
