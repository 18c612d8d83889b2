// The socket of one client: reads and writes with deadlines, and the question whether it is still
// there.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "server/wake.h"

namespace lily::server {

using Clock = std::chrono::steady_clock;

class Connection {
 public:
  explicit Connection(int fd);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  enum class Read { kBytes, kClosed, kLate };
  // Appends what has arrived, at most 64 KiB; waits for it until the deadline.
  Read read(std::string& out, Clock::time_point deadline);
  // False: the client is gone, or takes nothing for too long.
  bool write(std::string_view bytes, std::chrono::milliseconds patience);

  enum class Woken { kWake, kLeft, kTime };
  // Until `wake` is set, the client leaves, or the time is over.
  Woken wait(Wake& wake, std::chrono::milliseconds time);

  // Says that nothing more will be sent and throws away what still arrives, for a moment: closing
  // at once could take the reply from a client that is still sending.
  void linger();

  void stop_reading();  // From another thread: read() finds the end.
  void cut();           // The same for writes.

 private:
  bool has_left() const;
  int fd_;
};

}  // namespace lily::server
