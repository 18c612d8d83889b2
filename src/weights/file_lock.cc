// flock(2); see file_lock.h.
#include "weights/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace lily {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(200);
constexpr int kMaxPolls = 3600 * 5;

}  // namespace

Result<FileLock> FileLock::acquire(const Path& path, const std::function<void()>& waiting) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return system_error("creating " + path.string(), errno);
  FileLock lock(fd);
  for (int i = 0; i < kMaxPolls; ++i) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return lock;
    if (errno != EWOULDBLOCK && errno != EINTR) return system_error("locking " + path.string(), errno);
    if (waiting) waiting();
    std::this_thread::sleep_for(kPoll);
  }
  return Error{ErrorCode::kBusy, path.string() + ": another process has been packing for an hour"};
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace lily
