// lily eval: numbers against recorded truth, as a table or as one JSON object.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/model_source.h"
#include "cli/terminal.h"
#include "engine/eval.h"

namespace lily::cli {
namespace {

template <typename T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

nlohmann::ordered_json as_json(const EvalReport& r) {
  return {{"positions", r.positions},
          {"left_out", r.left_out},
          {"top1", or_null(r.top1)},
          {"top1_replies", or_null(r.top1_replies)},
          {"kl_mean", or_null(r.kl_mean)},
          {"kl_max", or_null(r.kl_max)},
          {"log_prob_max_difference", or_null(r.log_prob_max_difference)},
          {"perplexity", or_null(r.perplexity)},
          {"perplexity_reference", or_null(r.perplexity_reference)},
          {"greedy_equal", or_null(r.greedy_equal)},
          {"greedy_total", or_null(r.greedy_total)},
          {"greedy_different", r.greedy_different}};
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.2f} %", 100.0 * *share) : "not in this file";
}

std::string figure(const std::optional<double>& value) {
  return value ? fmt::format("{:.4g}", *value) : "not in this file";
}

std::string as_table(const EvalReport& r) {
  std::string out = fmt::format("positions            {} ({} of them ties, left out of top-1)\n",
                                r.positions, r.left_out);
  out += "top-1                " + percent(r.top1) + "\n";
  out += "top-1 on replies     " + percent(r.top1_replies) + "\n";
  out += "KL mean, largest     " + figure(r.kl_mean) + ", " + figure(r.kl_max) + "\n";
  out += "log-prob difference  " + figure(r.log_prob_max_difference) + "\n";
  out += "perplexity           " + figure(r.perplexity) + ", reference " +
         figure(r.perplexity_reference) + "\n";
  if (r.greedy_total)
    out += fmt::format("greedy answers       {} of {} equal\n", *r.greedy_equal, *r.greedy_total);
  for (const auto& line : r.greedy_different) out += "  " + line + "\n";
  return out;
}

}  // namespace

Result<int> execute(const EvalFlags& flags) {
  LILY_TRY(const auto engine, open_engine(flags.engine, {.quiet = flags.quiet}));
  ProgressLine line(!flags.quiet);
  InterruptScope interrupt;
  EvalOptions options;
  options.cancel = interrupt.flag();
  options.progress = [&line](int done, int total) {
    line.show("evaluating", static_cast<double>(done) / total, fmt::format("{} texts", total));
  };
  LILY_TRY(const auto report, evaluate(*engine, flags.golden, options));
  line.clear();
  using nlohmann::json;
  const auto keep = json::error_handler_t::replace;
  print_out(flags.json ? as_json(report).dump(2, ' ', false, keep) + "\n" : as_table(report));
  return 0;
}

}  // namespace lily::cli
