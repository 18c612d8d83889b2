// Standard output and standard error: writing, progress and Ctrl-C.
#include "cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "base/env.h"
#include "base/file.h"

namespace lily::cli {
namespace {

int out_error = 0;  // errno of the first failed write to standard output.
std::atomic<bool> interrupt_requested{false};

// 0, or errno.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

bool is_harmless(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 ? byte != 0x7f : c == '\n' || c == '\t';
}

std::string without_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (is_harmless(c)) out += c;
  }
  return out;
}

int write_text(int fd, bool terminal, std::string_view text) {
  return terminal ? write_all(fd, without_controls(text)) : write_all(fd, text);
}

void on_interrupt(int) {
  if (interrupt_requested.exchange(true)) ::_exit(kInterruptedStatus);
}

}  // namespace

bool stdin_is_terminal() {
  return ::isatty(STDIN_FILENO) == 1;
}
bool stdout_is_terminal() {
  return ::isatty(STDOUT_FILENO) == 1;
}
bool stderr_is_terminal() {
  return ::isatty(STDERR_FILENO) == 1;
}

bool print_out(std::string_view text) {
  static const bool terminal = stdout_is_terminal();
  if (out_error == 0) out_error = write_text(STDOUT_FILENO, terminal, text);
  return out_error == 0;
}

bool output_closed() {
  return out_error == EPIPE;
}

Result<void> output_failure() {
  if (out_error == 0 || output_closed()) return {};
  return system_error("writing standard output", out_error);
}

void print_note(std::string_view text) {
  static const bool terminal = stderr_is_terminal();
  // Where standard error is gone there is nobody left to tell.
  static_cast<void>(write_text(STDERR_FILENO, terminal, text));
}

void print_dim(std::string_view text) {
  static const bool dim = stderr_is_terminal() && !env::no_color();
  if (!dim) return print_note(text);
  static_cast<void>(write_all(STDERR_FILENO, "\033[2m" + without_controls(text) + "\033[0m"));
}

InterruptScope::InterruptScope() {
  interrupt_requested = false;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &before_);
}

InterruptScope::~InterruptScope() {
  ::sigaction(SIGINT, &before_, nullptr);
}
const std::atomic<bool>* InterruptScope::flag() const {
  return &interrupt_requested;
}
void InterruptScope::request() {
  interrupt_requested = true;
}
void InterruptScope::reset() {
  interrupt_requested = false;
}

ProgressLine::ProgressLine(bool wanted) : wanted_(wanted && stderr_is_terminal()) {}

void ProgressLine::show(std::string_view doing, double share, std::string_view of) {
  const auto now = Clock::now();
  if (!wanted_ || now - started_ < std::chrono::seconds(1)) return;
  if (shown_ && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  shown_ = true;
  static_cast<void>(write_all(STDERR_FILENO,
                              fmt::format("\r\033[K{}: {:.0f} % of {}", doing, 100.0 * share, of)));
}

void ProgressLine::clear() {
  if (shown_) static_cast<void>(write_all(STDERR_FILENO, "\r\033[K"));
  shown_ = false;
}

std::string human_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < std::size(kUnits)) {
    bytes /= 1000.0;
    ++unit;
  }
  const int decimals = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", bytes, decimals, kUnits[unit]);
}

Result<std::string> read_stdin(std::size_t limit_bytes) {
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const auto n = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("reading standard input", errno);
    if (n == 0) return text;
    if (text.size() + static_cast<std::size_t>(n) > limit_bytes) {
      return Error{ErrorCode::kTooLarge,
                   fmt::format("standard input: more than {} bytes", limit_bytes)};
    }
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

}  // namespace lily::cli
