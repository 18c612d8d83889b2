// The command line of `bench limits`.
#include "cli/option_parts.h"

namespace lily::cli {
namespace {

void describe_model(CLI::App& limits, LimitsFlags& flags) {
  auto* model = limits.add_option("--model", flags.model, "Checkpoint folder")->check(not_empty);
  auto* spec = limits
                   .add_option("--spec", flags.spec,
                               "Random weights of this shape instead: 35b, on emulator and "
                               "reference pocket, unless said")
                   ->check(CLI::IsMember({"35b", "pocket"}));
  auto* layers = limits
                     .add_option("--layers", flags.n_layers,
                                 "Layers of random weights; 0 is as many as the shape has")
                     ->check(CLI::Range(0, 200))
                     ->capture_default_str();
  model->excludes(spec)->excludes(layers);
  limits.add_flag("--no-pack", flags.no_pack, "Keep packed weights in memory, write nothing");
}

}  // namespace

void describe_limits(CLI::App& limits, LimitsFlags& flags) {
  describe_model(limits, flags);
  limits.add_option("--backend", flags.backend, "cpu, metal, cuda, emulator or reference")
      ->capture_default_str();
  limits.add_option("--threads", flags.threads, "Threads; 0 is one for each core")
      ->check(CLI::Range(0, 1024));
  limits.add_option("--isa", flags.isa, "Instruction set instead of the best one");
  limits
      .add_option("--mechanism", flags.mechanisms,
                  "NAME=on or NAME=off: a mechanism of the GPU; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  limits.add_option("--mebibytes", flags.mebibytes, "Memory to read through")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  limits.add_option("--rows", flags.rows, "Of products of many rows and of a chunk; 0 is neither")
      ->check(CLI::Range(0, 2048))
      ->capture_default_str();
  limits.add_option("--depth", flags.depth, "Positions before the decoded row")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  limits.add_option("--repeat", flags.repeat, "Measurements of each")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  limits.add_flag("--json", flags.json, "One JSON object");
  limits.parse_complete_callback([&] { flags.given = given_words(limits, ""); });
}

}  // namespace lily::cli
