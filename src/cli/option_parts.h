// What the files that describe the command line share. Only they include it, since it brings CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/options.h"

namespace lily::cli {

constexpr int kMostTokens = 1 << 24;  // More than any context of the family.

// CLI11 would wrap -1 around to the largest number.
inline std::string not_negative(const std::string& text) {
  return text.starts_with('-') ? "Value " + text + " is below 0" : std::string();
}

// An empty name is a variable that was never set, not a wish for the default.
inline std::string not_empty(const std::string& text) {
  return text.empty() ? "must not be empty" : std::string();
}

// One command's parser and what it fills. Kept alive until the chosen one is moved out.
template <typename Flags>
CLI::App& add_command(CLI::App& app, const char* name, const char* help, Flags& flags,
                      ParsedLine& line) {
  CLI::App& command = *app.add_subcommand(name, help);
  command.callback([&flags, &line] {
    if (!line.command) line.command = flags;
  });
  return command;
}

void add_engine_options(CLI::App& app, EngineFlags& flags);

// The options that were given, as they were: those of one group of the help, or all.
inline std::vector<std::string> given_words(const CLI::App& app, const std::string& group) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    if (!group.empty() && option->get_group() != group) continue;
    const bool is_flag = option->get_items_expected_max() == 0;
    for (const auto& value : option->results())
      words.push_back(option->get_name() + (is_flag ? "" : "=" + value));
  }
  return words;
}

// `bench` and the commands below it.
struct BenchFamily {
  BenchFlags bench;
  LimitsFlags limits;
  WorkerFlags worker;
  SweepFlags sweep;
  AblateFlags ablate;
  PlotFlags plot;
  BenchServeFlags serve;
};

void describe_limits(CLI::App& limits, LimitsFlags& flags);
void describe_serve_load(CLI::App& serve, BenchServeFlags& flags);
void describe_bench(CLI::App& app, BenchFamily& flags, ParsedLine& line);

}  // namespace lily::cli
