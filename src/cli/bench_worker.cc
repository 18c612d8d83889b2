// lily bench worker: Lily as an engine of a sweep, asked on standard input and answering on
// standard output, a line each.
#include <iostream>
#include <string>

#include "cli/commands.h"
#include "cli/model_source.h"
#include "cli/terminal.h"
#include "measure/worker.h"

namespace lily::cli {
namespace {

constexpr std::size_t kBytesToRead = std::size_t{512} << 20;
constexpr std::size_t kMostRequestBytes = 4096;

}  // namespace

Result<int> execute(const WorkerFlags& flags) {
  LILY_TRY(const Path folder, model_folder(flags.engine.model));
  LILY_TRY(const auto engine, open_engine(flags.engine, {.quiet = true}));
  SweepWorker worker(*engine, {.model = model_name(folder),
                               .provenance = provenance_here(&engine->backend(), flags.given),
                               .limits = {.threads = flags.engine.threads,
                                          .isa = flags.engine.isa,
                                          .bytes = kBytesToRead}});
  if (!print_out(worker.hello() + "\n")) return 0;
  char line[kMostRequestBytes];
  while (std::cin.getline(line, sizeof line)) {
    if (!print_out(worker.answer(line) + "\n")) return 0;
  }
  if (std::cin.eof()) return 0;
  return Error{ErrorCode::kTooLarge,
               "a request of more than " + std::to_string(kMostRequestBytes) + " bytes"};
}

}  // namespace lily::cli
