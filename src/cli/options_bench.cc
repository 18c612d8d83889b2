// The command line of `bench` and of the commands below it.
#include "cli/option_parts.h"

namespace lily::cli {
namespace {

void describe_speed(CLI::App& bench, BenchFlags& flags) {
  add_engine_options(bench, flags.engine);
  bench.add_option("--prefill", flags.prefill, "Prompt lengths, with commas")
      ->delimiter(',')
      ->check(CLI::Range(1, kMostTokens))
      ->capture_default_str();
  bench.add_option("--decode", flags.decode_tokens, "Tokens to generate; 0 is none")
      ->check(CLI::Range(0, kMostTokens))
      ->capture_default_str();
  bench
      .add_option("--depth", flags.depths,
                  "Positions in the cache when decoding starts, with commas")
      ->delimiter(',')
      ->check(CLI::Range(1, kMostTokens))
      ->capture_default_str();
  bench
      .add_option("--repeat", flags.repeat,
                  "Measurements of each; a first prompt does not count")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  bench.add_flag("--json", flags.json, "One JSON object");
}

}  // namespace

void describe_bench(CLI::App& app, BenchFamily& flags, ParsedLine& line) {
  auto& bench =
      add_command(app, "bench", "Speed, beside what the machine can do", flags.bench, line);
  describe_speed(bench, flags.bench);
  describe_limits(
      add_command(bench, "limits", "What the machine can read and compute", flags.limits, line),
      flags.limits);
}

}  // namespace lily::cli
