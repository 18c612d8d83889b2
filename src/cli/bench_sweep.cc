// lily bench sweep: engines in turn at every length, what was measured kept in a folder, and its
// pictures.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "cli/commands.h"
#include "cli/model_source.h"
#include "cli/terminal.h"
#include "measure/svg.h"
#include "measure/sweep.h"
#include "measure/sweep_plot.h"
#include "measure/sweep_summary.h"

namespace lily::cli {
namespace {

// As one word of a shell's command.
std::string shell_word(const std::string& word) {
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

// Names head columns, and files are called by them.
Result<SweepEngine> named_command(const std::string& option, const std::string& text) {
  const auto equals = text.find('=');
  const std::string name = text.substr(0, equals);
  constexpr auto kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  const bool is_plain = !name.empty() && name.front() != '.' && name.size() <= 40 &&
                        name.find_first_not_of(kPlain) == std::string::npos;
  if (!is_plain || equals == std::string::npos) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} '{}': expected NAME=..., the name of at most 40 letters, digits, "
                             "'.', '_' or '-'",
                             option, text)};
  }
  return SweepEngine{name, text.substr(equals + 1)};
}

Result<std::vector<SweepEngine>> engines_of(const SweepFlags& flags) {
  std::string worker = shell_word(program_file().string()) + " bench worker";
  for (const auto& word : flags.engine_words) worker.append(1, ' ').append(shell_word(word));
  std::vector<SweepEngine> out;
  for (const auto& text : flags.lily) {
    LILY_TRY(auto engine, named_command("--lily", text));
    engine.command.insert(0, worker + ' ');
    out.push_back(std::move(engine));
  }
  if (out.empty()) out.push_back({"Lily", worker});
  for (const auto& text : flags.peers) {
    LILY_TRY(auto engine, named_command("--peer", text));
    out.push_back(std::move(engine));
  }
  for (auto engine = out.begin(); engine != out.end(); ++engine) {
    const auto same = [&](const SweepEngine& other) { return other.name == engine->name; };
    if (std::any_of(out.begin(), engine, same))
      return Error{ErrorCode::kInvalidArgument, "two engines are called '" + engine->name + "'"};
  }
  if (out.size() <= kMostSeries) return out;
  return Error{ErrorCode::kTooLarge,
               fmt::format("{} engines, at most {}", out.size(), kMostSeries)};
}

// What was begun in the folder, or a new beginning.
Result<SweepRecord> open_record(const Path& folder, const SweepOptions& options) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return system_error("making the folder " + folder.string(), failed.value());
  auto record = load_record(folder);
  if (!record && record.error().code == ErrorCode::kNotFound)
    return SweepRecord{.options = options};
  if (!record) return record.error();
  if (auto same = check_same_options(record->options, options); !same)
    return with_context(folder.string(), same.error());
  return record;
}

std::vector<int> ascending(std::vector<int> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

std::string time_left(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s left", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min left", seconds / 60);
  return fmt::format("{:.1f} h left", seconds / 3600);
}

// How long is known once something was measured.
std::string measurements_text(const SweepProgress& progress) {
  const std::string text = fmt::format("{} measurements", progress.total);
  return progress.done == 0 ? text : text + ", " + time_left(progress.seconds_left);
}

Result<void> run_with_progress(SweepRecord& record, const Path& folder) {
  InterruptScope interrupt;
  ProgressLine line(true);
  return run_sweep(
      record, {.cancel = interrupt.flag(),
               .save = [&](const auto& now) { return save_record(folder, now); },
               .progress =
                   [&](const SweepProgress& p) {
                     line.show(p.doing, static_cast<double>(p.done) / static_cast<double>(p.total),
                               measurements_text(p));
                   },
               .note =
                   [&](const std::string& words) {
                     line.clear();
                     print_note("lily bench sweep: " + words + "\n");
                   },
               .log_folder = folder});
}

}  // namespace

Result<int> execute(const SweepFlags& flags) {
  SweepOptions options = flags.options;
  LILY_TRY(options.engines, engines_of(flags));
  options.lengths = ascending(options.lengths);
  options.depths = ascending(options.depths);
  LILY_TRY(auto record, open_record(flags.out, options));
  const auto ran = run_with_progress(record, flags.out);
  LILY_RETURN_IF_ERROR(write_sweep(flags.out, record));
  print_out(summary_text(record));
  if (!ran && ran.error().code == ErrorCode::kCancelled)
    return Error{ErrorCode::kCancelled, "interrupted; the same command goes on where it stopped"};
  LILY_RETURN_IF_ERROR(ran);
  return 0;
}

}  // namespace lily::cli
