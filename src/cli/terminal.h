// Standard output and standard error: what is written where, what a terminal may see, progress, and
// Ctrl-C.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lily::cli {

bool stdin_is_terminal();
bool stdout_is_terminal();
bool stderr_is_terminal();

// Writes to standard output at once. False after a failure, which output_failure() tells; later
// calls write nothing. On a terminal, control characters other than newline and tab are left out:
// an answer cannot move the cursor.
bool print_out(std::string_view text);

// The reader of a pipe has gone: nobody wants more, and nobody is told.
bool output_closed();
// Standard output failed in another way, such as a full disk.
Result<void> output_failure();

// Writes to standard error, with the same care on a terminal.
void print_note(std::string_view text);

// The same in a dim shade where standard error is a terminal and NO_COLOR is not set.
void print_dim(std::string_view text);

// The exit status a shell reports for a program whose pipe was closed.
inline constexpr int kClosedPipeStatus = 141;
inline constexpr int kInterruptedStatus = 130;

// While it lives, Ctrl-C sets flag() instead of ending the program; a second Ctrl-C ends it.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  const std::atomic<bool>* flag() const;
  bool interrupted() const { return flag()->load(); }
  // Sets the same flag: for an answer that nobody reads any more.
  void request();
  void reset();

 private:
  struct sigaction before_ {};
};

// A line on standard error that overwrites itself, from the second second on, only on a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool wanted);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  // "packing: 34 % of 19.5 GB"; at most ten times a second.
  void show(std::string_view doing, double share, std::string_view of);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool wanted_;
  bool shown_ = false;
  Clock::time_point started_ = Clock::now(), last_;
};

// "19.5 GB", "412 KB": decimal units, three digits.
std::string human_bytes(double bytes);

// All of standard input, at most `limit_bytes`.
Result<std::string> read_stdin(std::size_t limit_bytes);

}  // namespace lily::cli
