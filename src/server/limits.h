// Every bound of the server in one place. docs/API.md lists what reaching each of them answers.
#pragma once

#include <chrono>
#include <cstddef>

namespace lily::server {

struct HttpLimits {
  std::size_t body_bytes = std::size_t{64} << 20;         // Of a body that says its length.
  std::size_t chunked_body_bytes = std::size_t{8} << 20;  // Of one that does not.
  // Bodies beyond these sizes take turns, so that many senders at once cannot fill the memory.
  std::size_t small_body_bytes = std::size_t{1} << 20;
  std::size_t small_chunked_bytes = std::size_t{128} << 10;
  int large_bodies = 2;
  int large_chunked_bodies = 1;

  int connections = 256;  // More are told to come back.
  std::chrono::milliseconds head_time{10'000};
  std::chrono::milliseconds body_time{60'000};   // For the whole body.
  std::chrono::milliseconds idle_time{75'000};   // Between two requests of a connection.
  std::chrono::milliseconds write_time{30'000};  // Until a reader that is stuck counts as gone.
};

inline constexpr std::size_t kMaxTools = 1024;
inline constexpr std::size_t kMaxStops = 16;
inline constexpr std::size_t kMaxStopBytes = 1024;
inline constexpr std::size_t kMaxSchemaDepth = 64;
inline constexpr std::size_t kMaxPatternBytes = 1024;
inline constexpr int kMaxPatternPlaces = 256;  // Of the patterns of one schema.
inline constexpr int kMaxChoices = 16;
inline constexpr std::chrono::milliseconds kKeepAlive{3'000};  // Longest silence of a stream.

}  // namespace lily::server
