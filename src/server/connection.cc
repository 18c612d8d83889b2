// A socket that never blocks; waiting is poll's affair.
#include "server/connection.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace lily::server {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;

#ifdef POLLRDHUP
constexpr short kLeaving = POLLRDHUP;
#else
constexpr short kLeaving = POLLIN;
#endif

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 1'000'000));
}

bool try_again(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

Connection::Connection(int fd) : fd_(fd) {
  ::fcntl(fd_, F_SETFL, O_NONBLOCK);
  ::fcntl(fd_, F_SETFD, FD_CLOEXEC);
  const int on = 1;
  // A token is a small packet that should not wait for the next.
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
#ifdef SO_NOSIGPIPE
  ::setsockopt(fd_, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
}

Connection::~Connection() {
  ::close(fd_);
}

Connection::Read Connection::read(std::string& out, Clock::time_point deadline) {
  char buffer[kReadBytes];
  for (;;) {
    const auto n = ::recv(fd_, buffer, sizeof buffer, 0);
    if (n > 0) {
      out.append(buffer, static_cast<std::size_t>(n));
      return Read::kBytes;
    }
    if (n == 0 || !try_again(errno)) return Read::kClosed;
    pollfd wanted{fd_, POLLIN, 0};
    if (::poll(&wanted, 1, milliseconds_until(deadline)) == 0) return Read::kLate;
  }
}

bool Connection::write(std::string_view bytes, std::chrono::milliseconds patience) {
#ifdef MSG_NOSIGNAL
  constexpr int kFlags = MSG_NOSIGNAL;
#else
  constexpr int kFlags = 0;
#endif
  auto deadline = Clock::now() + patience;
  while (!bytes.empty()) {
    const auto n = ::send(fd_, bytes.data(), bytes.size(), kFlags);
    if (n > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
      deadline = Clock::now() + patience;
      continue;
    }
    if (n == 0 || !try_again(errno)) return false;
    pollfd wanted{fd_, POLLOUT, 0};
    if (::poll(&wanted, 1, milliseconds_until(deadline)) == 0) return false;
  }
  return true;
}

bool Connection::has_left() const {
  char byte = 0;
  const auto n = ::recv(fd_, &byte, 1, MSG_PEEK);
  return n == 0 || (n < 0 && !try_again(errno));
}

Connection::Woken Connection::wait(Wake& wake, std::chrono::milliseconds time) {
  const auto deadline = Clock::now() + time;
  for (;;) {
    pollfd wanted[2] = {{wake.readable_fd(), POLLIN, 0}, {fd_, kLeaving, 0}};
    const int n = ::poll(wanted, 2, milliseconds_until(deadline));
    if (wanted[0].revents != 0) {
      wake.clear();
      return Woken::kWake;
    }
    if (n == 0) return Woken::kTime;
    if (n > 0 && (wanted[1].revents & kLeaving) == POLLIN && !has_left()) {
      // Where a departure cannot be told from the next request: look again a little later.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } else if (n > 0 && wanted[1].revents != 0) {
      return Woken::kLeft;
    }
  }
}

void Connection::linger() {
  constexpr auto kMoment = std::chrono::milliseconds(1000);
  ::shutdown(fd_, SHUT_WR);
  std::string thrown_away;
  const auto deadline = Clock::now() + kMoment;
  while (Clock::now() < deadline && read(thrown_away, deadline) == Read::kBytes)
    thrown_away.clear();
}

void Connection::stop_reading() {
  ::shutdown(fd_, SHUT_RD);
}
void Connection::cut() {
  ::shutdown(fd_, SHUT_RDWR);
}

}  // namespace lily::server
