// A flag that a thread can wait for together with a socket: one thread sets it, another polls it.
#pragma once

#include <atomic>

namespace lily::server {

class Wake {
 public:
  Wake();
  ~Wake();
  Wake(const Wake&) = delete;
  Wake& operator=(const Wake&) = delete;

  void set();    // From any thread, and from a signal handler.
  void clear();  // By the thread that waits, before it looks at what it was woken for.
  int readable_fd() const { return read_fd_; }

 private:
  int read_fd_ = -1, write_fd_ = -1;
  std::atomic<bool> is_set_{false};
};

}  // namespace lily::server
