// The command line of `bench` and of the commands below it.
#include <charconv>

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

// "4K" is 4,096.
std::string with_kilo(std::string& text) {
  if (text.empty() || (text.back() != 'K' && text.back() != 'k')) return "";
  int thousands = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size() - 1, thousands);
  if (failed != std::errc() || end != text.data() + text.size() - 1 || thousands < 1 ||
      thousands > kMostTokens / 1024)
    return "Value " + text + " is no number of tokens";
  text = std::to_string(thousands * 1024);
  return "";
}

CLI::Option* add_lengths(CLI::App& app, const char* name, std::vector<int>& values,
                         const char* help) {
  // Validators run last added first.
  return app.add_option(name, values, help)
      ->delimiter(',')
      ->check(CLI::Range(1, kMostTokens))
      ->transform(CLI::Validator(with_kilo, ""))
      ->capture_default_str();
}

void describe_engines(CLI::App& sweep, SweepFlags& flags) {
  add_engine_options(sweep, flags.engine);
  const auto add_repeatable = [&](const char* name, std::vector<std::string>& values,
                                  const char* help) {
    sweep.add_option(name, values, help)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  add_repeatable("--lily", flags.lily,
                 "NAME=FLAGS: Lily with further flags of its own; repeatable, the first is what others "
                 "are compared with");
  add_repeatable("--peer", flags.peers,
                 "NAME=COMMAND: an engine that speaks the protocol of docs/SWEEPS.md, such as a script "
                 "of tools/peers; repeatable");
}

void describe_sweep(CLI::App& sweep, SweepFlags& flags) {
  SweepOptions& options = flags.options;
  describe_engines(sweep, flags);
  add_lengths(sweep, "--lengths", options.lengths, "Prompt lengths, with commas; 4K is 4096");
  add_lengths(sweep, "--depths", options.depths, "Positions in the cache when decoding starts");
  sweep.add_option("--decode", options.decode_tokens, "Tokens to generate; 0 is none")
      ->check(CLI::Range(0, kMostTokens))
      ->capture_default_str();
  sweep.add_option("--rounds", options.rounds, "Measurements of each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  sweep.add_flag("--one-at-a-time", options.one_at_a_time,
                 "Load, measure and end one engine after the other in each round: memory for one");
  sweep.add_option("--warm-up", options.warm_up_tokens,
                   "A point of at most this many tokens is first measured once more, which does not count")
      ->check(CLI::Range(0, kMostTokens))
      ->capture_default_str();
  sweep.add_option("--pause", options.pause_seconds, "Seconds to cool before every measurement")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  sweep.add_option("--limit", options.limit_seconds, "Seconds that an answer may take")
      ->check(CLI::Range(0.1, 1e6))
      ->capture_default_str();
  sweep.add_option("--title", options.title, "What the plots say of the model")->check(not_empty);
  sweep.add_option("--out", flags.out,
                   "Folder for results.json, results.csv and plots; what was begun there goes on")
      ->required()
      ->check(not_empty);
}

void describe_ablate(CLI::App& ablate, AblateFlags& flags) {
  add_engine_options(ablate, flags.engine);
  add_lengths(ablate, "--prefill", flags.prefill, "Prompt lengths, with commas");
  add_lengths(ablate, "--depth", flags.depths, "Positions in the cache when decoding starts");
  ablate.add_option("--decode", flags.decode_tokens, "Tokens to generate; 0 is none")
      ->check(CLI::Range(0, kMostTokens))
      ->capture_default_str();
  ablate.add_option("--rounds", flags.rounds, "Measurements of each, with and without")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  ablate.add_option("--only", flags.only, "Names of mechanisms, with commas")->delimiter(',');
  ablate.add_option("--out", flags.out, "Folder for ablation.json, ablation.csv and ablation.svg")
      ->check(not_empty);
  ablate.add_flag("--json", flags.json, "One JSON object");
}

}  // namespace

void describe_bench(CLI::App& app, BenchFamily& flags, ParsedLine& line) {
  auto& bench =
      add_command(app, "bench", "Speed, beside what the machine can do", flags.bench, line);
  describe_speed(bench, flags.bench);
  describe_limits(
      add_command(bench, "limits", "What the machine can read and compute", flags.limits, line),
      flags.limits);
  auto& worker = add_command(bench, "worker", "Lily as an engine of a sweep: asked and answering in lines",
                             flags.worker, line);
  add_engine_options(worker, flags.worker.engine);
  worker.parse_complete_callback([&] { flags.worker.given = given_words(worker, "Model"); });
  auto& sweep = add_command(bench, "sweep", "Engines in turn at every length, with plots", flags.sweep, line);
  describe_sweep(sweep, flags.sweep);
  sweep.parse_complete_callback([&] { flags.sweep.engine_words = given_words(sweep, "Model"); });
  auto& ablate = add_command(bench, "ablate", "What each mechanism is worth, switched in turn",
                             flags.ablate, line);
  describe_ablate(ablate, flags.ablate);
  ablate.parse_complete_callback([&] { flags.ablate.given = given_words(ablate, "Model"); });
  add_command(bench, "plot", "Table and plots of what sweep or ablate measured, again", flags.plot, line)
      .add_option("folder", flags.plot.folder, "Where its results.json or ablation.json is")
      ->required()
      ->check(not_empty);
  describe_serve_load(
      add_command(bench, "serve", "Load on a running server: times, throughput, errors", flags.serve, line),
      flags.serve);
}

}  // namespace lily::cli
