// One process at a time: an advisory lock on a file, given back when the process ends in whatever way.
#pragma once

#include <functional>

#include "base/file.h"
#include "base/result.h"

namespace lily {

class FileLock {
 public:
  // Creates the file if needed and waits for its lock. `waiting` is called about five times a second while another process
  // holds it; kBusy after an hour.
  static Result<FileLock> acquire(const Path& path, const std::function<void()>& waiting);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace lily
