// The program: reads the command line, runs one command, and turns its outcome into messages and an
// exit status.
#include <csignal>
#include <exception>

#include "cli/commands.h"
#include "cli/terminal.h"

namespace lily::cli {
namespace {

constexpr int kUnknownFailure = 1;

int report(const ParsedLine& line, const Error& error) {
  print_note((line.name.empty() ? "lily" : "lily " + line.name) + ": " + error.message + "\n");
  return exit_status(error.code);
}

// A status after everything was printed, or what became of the printing.
int finish(const ParsedLine& line, int status) {
  if (output_closed()) return kClosedPipeStatus;
  if (const auto written = output_failure(); !written) return report(line, written.error());
  return status;
}

int run_command(const ParsedLine& line) {
  const auto status = std::visit([](const auto& flags) { return execute(flags); }, *line.command);
  if (output_closed()) return kClosedPipeStatus;
  if (!status) return report(line, status.error());
  return finish(line, *status);
}

}  // namespace
}  // namespace lily::cli

int main(int argc, char** argv) {
  using namespace lily::cli;
  // A closed pipe is noticed where it is written to.
  std::signal(SIGPIPE, SIG_IGN);
  ParsedLine line;
  try {
    line = parse_command_line(argc, argv);
    return line.command ? run_command(line) : finish(line, line.exit_status);
  } catch (const std::bad_alloc&) {
    return report(line, {lily::ErrorCode::kNoMemory, "memory is used up"});
  } catch (const std::exception& failure) {
    print_note(std::string("lily ") + line.name + ": " + failure.what() + "\n");
    return kUnknownFailure;
  }
}
