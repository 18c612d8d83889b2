// A pipe that holds at most one byte.
#include "server/wake.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/check.h"

namespace lily::server {

Wake::Wake() {
  int ends[2] = {-1, -1};
  // Connections are bounded far below what a process may open.
  LILY_CHECK(::pipe(ends) == 0);
  for (const int end : ends) {
    ::fcntl(end, F_SETFL, O_NONBLOCK);
    ::fcntl(end, F_SETFD, FD_CLOEXEC);
  }
  read_fd_ = ends[0];
  write_fd_ = ends[1];
}

Wake::~Wake() {
  ::close(read_fd_);
  ::close(write_fd_);
}

void Wake::set() {
  if (is_set_.exchange(true)) return;
  const char byte = 1;
  // It cannot fail: the pipe is empty.
  [[maybe_unused]] const auto written = ::write(write_fd_, &byte, 1);
}

void Wake::clear() {
  char byte = 0;
  if (::read(read_fd_, &byte, 1) == 1) is_set_.store(false);
}

}  // namespace lily::server
