// Starting, speaking to and ending a child process.
#include "measure/line_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

extern char** environ;

namespace lily {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSliceMilliseconds = 50;  // How late a request to stop is noticed at most.

struct Pipe {
  int read = -1, write = -1;
  ~Pipe() {
    if (read >= 0) ::close(read);
    if (write >= 0) ::close(write);
  }
};

// Children inherit neither end but through posix_spawn's dup2.
Result<void> open_pipe(Pipe& pipe) {
  int ends[2];
  if (::pipe(ends) != 0) return system_error("making a pipe", errno);
  pipe.read = ends[0];
  pipe.write = ends[1];
  for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  return {};
}

// Streams, signals and group of the child.
class SpawnPlan {
 public:
  SpawnPlan(const Pipe& input, const Pipe& output, const Path& log) {
    ::posix_spawn_file_actions_init(&streams_);
    ::posix_spawn_file_actions_adddup2(&streams_, input.read, STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&streams_, output.write, STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&streams_, STDERR_FILENO, log.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::posix_spawnattr_init(&attributes_);
    sigset_t defaults;
    sigemptyset(&defaults);
    for (const int number : {SIGINT, SIGPIPE}) sigaddset(&defaults, number);
    ::posix_spawnattr_setsigdefault(&attributes_, &defaults);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&streams_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  Result<pid_t> spawn(std::string command) const {
    std::string shell = "/bin/sh", flag = "-c";
    char* const words[] = {shell.data(), flag.data(), command.data(), nullptr};
    pid_t pid = 0;
    const int failed = ::posix_spawn(&pid, shell.c_str(), &streams_, &attributes_, words, environ);
    if (failed != 0) return system_error("starting '" + command + "'", failed);
    return pid;
  }

 private:
  posix_spawn_file_actions_t streams_;
  posix_spawnattr_t attributes_;
};

void close_end(int& end) {
  if (end >= 0) ::close(std::exchange(end, -1));
}

}  // namespace

Result<std::unique_ptr<LineProcess>> LineProcess::start(const std::string& command,
                                                        const Path& log) {
  Pipe input, output;
  LILY_RETURN_IF_ERROR(open_pipe(input));
  LILY_RETURN_IF_ERROR(open_pipe(output));
  LILY_TRY(const pid_t pid, SpawnPlan(input, output, log).spawn(command));
  return std::unique_ptr<LineProcess>(
      new LineProcess(pid, std::exchange(input.write, -1), std::exchange(output.read, -1)));
}

LineProcess::~LineProcess() {
  stop(0);
}

// The child is left unreaped, so that its number stays its own until stop().
bool LineProcess::has_ended() const {
  siginfo_t info{};
  const int flags = WEXITED | WNOHANG | WNOWAIT;
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, flags) != 0 || info.si_pid == pid_;
}

std::string LineProcess::ending() const {
  siginfo_t info{};
  for (int i = 0; i < 10 && !has_ended(); ++i) {  // Its output closes a moment before it ends.
    std::this_thread::sleep_for(std::chrono::milliseconds(kSliceMilliseconds));
  }
  ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  if (info.si_pid != pid_) return "closed its output";
  return (info.si_code == CLD_EXITED ? "ended with exit status " : "was ended by signal ") +
         std::to_string(info.si_status);
}

Result<void> LineProcess::write_line(std::string_view line) {
  const std::string text = std::string(line) + "\n";
  std::string_view left = text;
  while (!left.empty()) {
    const auto n = ::write(to_, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error{ErrorCode::kDevice, ending()};
    left.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<bool> LineProcess::read_some(int wait_milliseconds) {
  pollfd wanted{.fd = from_, .events = POLLIN, .revents = 0};
  if (::poll(&wanted, 1, wait_milliseconds) <= 0) return false;
  std::array<char, 4096> bytes;
  const auto n = ::read(from_, bytes.data(), bytes.size());
  if (n < 0 && errno == EINTR) return false;
  if (n <= 0) return Error{ErrorCode::kDevice, ending()};
  unread_.append(bytes.data(), static_cast<std::size_t>(n));
  return true;
}

Result<std::string> LineProcess::read_line(double limit_seconds, const std::atomic<bool>* cancel) {
  const auto end = Clock::now() + std::chrono::duration<double>(limit_seconds);
  for (std::size_t seen = 0;;) {
    const auto newline = unread_.find('\n', seen);
    if (newline != std::string::npos) {
      std::string line = unread_.substr(0, newline);
      unread_.erase(0, newline + 1);
      return line;
    }
    seen = unread_.size();
    if (seen > kMostLineBytes) return Error{ErrorCode::kTooLarge, "said a line of more than 1 MiB"};
    if (cancel != nullptr && cancel->load()) return Error{ErrorCode::kCancelled, "interrupted"};
    if (Clock::now() > end) {
      return Error{ErrorCode::kBusy,
                   "gave no answer in " + std::to_string(std::lround(limit_seconds)) + " s"};
    }
    LILY_RETURN_IF_ERROR(read_some(kSliceMilliseconds));
  }
}

void LineProcess::stop(double grace_seconds) {
  if (pid_ <= 0) return;
  close_end(to_);
  const auto end = Clock::now() + std::chrono::duration<double>(grace_seconds);
  while (!has_ended() && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(kSliceMilliseconds));
  ::kill(-pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  close_end(from_);
  pid_ = -1;
}

}  // namespace lily
