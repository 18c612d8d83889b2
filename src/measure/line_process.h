// A child process that is spoken to in lines: its standard input and output are pipes, its standard
// error goes to a file. What the lines mean is the caller's business.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/result.h"

namespace lily {

class LineProcess {
 public:
  static constexpr std::size_t kMostLineBytes = std::size_t{1} << 20;

  // `command` is for /bin/sh. The child leads a process group of its own, so that Ctrl-C is not for
  // it and what it starts ends with it. What it says on standard error is added to `log`.
  static Result<std::unique_ptr<LineProcess>> start(const std::string& command, const Path& log);
  ~LineProcess();  // Kills what is left.
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;

  // kDevice where nobody reads any more.
  Result<void> write_line(std::string_view line);
  // The next line, without its end. kBusy where none came in time, kDevice where the child has
  // ended, kTooLarge past kMostLineBytes, kCancelled.
  Result<std::string> read_line(double limit_seconds, const std::atomic<bool>* cancel);
  // Ends its input, gives it time to leave of its own accord, then kills the group.
  void stop(double grace_seconds);

 private:
  LineProcess(pid_t pid, int to, int from) : pid_(pid), to_(to), from_(from) {}
  bool has_ended() const;
  std::string ending() const;  // "exit status 3", "signal 9", "its output is closed"
  // More of its output to unread_; false where there was none within a moment.
  Result<bool> read_some(int wait_milliseconds);

  pid_t pid_;
  int to_, from_;
  std::string unread_;
};

}  // namespace lily
