// lily eval: numbers against recorded truth or another backend, as a table or as one JSON object.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/model_source.h"
#include "cli/terminal.h"
#include "engine/eval.h"

namespace lily::cli {
namespace {

using nlohmann::ordered_json;

// What a perplexity is above another, where both are there.
std::optional<double> delta_percent(const std::optional<double>& ours,
                                    const std::optional<double>& theirs) {
  if (!ours || !theirs) return std::nullopt;
  return perplexity_delta_percent(*ours, *theirs);
}

template <typename T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

// "embedding", "layer 0": what the residual stream was compared after.
std::string stream_name(std::size_t index) {
  return index == 0 ? "embedding" : fmt::format("layer {}", index - 1);
}

ordered_json drift_json(const std::vector<Drift>& drift) {
  ordered_json out = ordered_json::array();
  for (std::size_t i = 0; i < drift.size(); ++i) {
    out.push_back({{"after", stream_name(i)}, {"mean", drift[i].mean}, {"max", drift[i].largest}});
  }
  return out;
}

ordered_json against_json(const ComparisonReport& r, const std::string& name) {
  return {{"backend", name},
          {"positions", r.positions},
          {"top1", r.top1},
          {"kl_mean", r.kl_mean},
          {"kl_max", r.kl_max},
          {"perplexity", or_null(r.perplexity)},
          {"perplexity_against", or_null(r.perplexity_theirs)},
          {"perplexity_delta_percent", or_null(delta_percent(r.perplexity, r.perplexity_theirs))},
          {"drift", drift_json(r.drift)}};
}

ordered_json as_json(const EvalReport& r, const std::string& backend, const std::string& against) {
  ordered_json out = {
      {"backend", backend},
      {"positions", r.positions},
      {"left_out", r.left_out},
      {"top1", or_null(r.top1)},
      {"top1_all", or_null(r.top1_all)},
      {"top1_replies", or_null(r.top1_replies)},
      {"kl_mean", or_null(r.kl_mean)},
      {"kl_max", or_null(r.kl_max)},
      {"log_prob_max_difference", or_null(r.log_prob_max_difference)},
      {"perplexity", or_null(r.perplexity)},
      {"perplexity_reference", or_null(r.perplexity_reference)},
      {"perplexity_delta_percent", or_null(delta_percent(r.perplexity, r.perplexity_reference))},
      {"greedy_equal", or_null(r.greedy_equal)},
      {"greedy_total", or_null(r.greedy_total)},
      {"greedy_different", r.greedy_different}};
  if (r.against) out["against"] = against_json(*r.against, against);
  return out;
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.2f} %", 100.0 * *share) : "not in this file";
}

std::string figure(const std::optional<double>& value) {
  return value ? fmt::format("{:.4g}", *value) : "not in this file";
}

// "perplexity +0.04 %, same top token at 96.35 % over 192 positions"
std::string headline(const std::optional<double>& delta, double top1, int positions) {
  const std::string perplexity = delta ? fmt::format("perplexity {:+.2f} %, ", *delta) : "";
  return perplexity +
         fmt::format("same top token at {:.2f} % over {} positions\n", 100.0 * top1, positions);
}

std::string recorded_table(const EvalReport& r) {
  std::string out =
      headline(delta_percent(r.perplexity, r.perplexity_reference), *r.top1_all, r.positions);
  out += fmt::format("positions            {} ({} of them ties, left out of top-1)\n", r.positions,
                     r.left_out);
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

std::string against_table(const ComparisonReport& r, const std::string& name) {
  std::string out = "against " + name + "\n";
  out += headline(delta_percent(r.perplexity, r.perplexity_theirs), r.top1, r.positions);
  out += fmt::format("KL mean, largest     {:.4g}, {:.4g}\n", r.kl_mean, r.kl_max);
  out += "perplexity           " + figure(r.perplexity) + ", the other " +
         figure(r.perplexity_theirs) + "\n";
  out += "residual stream      mean, largest relative error\n";
  for (std::size_t i = 0; i < r.drift.size(); ++i) {
    out += fmt::format("  after {:12} {:.2e}  {:.2e}\n", stream_name(i), r.drift[i].mean,
                       r.drift[i].largest);
  }
  return out;
}

std::string as_table(const EvalReport& r, const std::string& backend, const std::string& against) {
  std::string out = backend + "\n";
  out += r.top1_all ? recorded_table(r)
                    : fmt::format("perplexity           {} over {} positions\n",
                                  figure(r.perplexity), r.positions);
  if (r.against) out += against_table(*r.against, against);
  return out;
}

Result<std::vector<GoldenRow>> read_rows(const EvalFlags& flags, const Tokenizer& tokenizer) {
  if (!flags.golden.empty()) return read_golden(flags.golden, tokenizer.n_ids());
  LILY_TRY(auto row, read_text_row(flags.text, tokenizer, flags.positions));
  return std::vector<GoldenRow>{std::move(row)};
}

// Null where no other backend was asked for. Instruction set and mechanisms were named for the
// first alone.
Result<std::unique_ptr<Engine>> open_other(const EvalFlags& flags) {
  if (flags.against.empty()) return std::unique_ptr<Engine>();
  EngineFlags other = flags.engine;
  other.backend = flags.against;
  other.exact = flags.against_exact;
  other.isa.clear();
  other.mechanisms.clear();
  return open_engine(other, {.quiet = flags.quiet});
}

}  // namespace

Result<int> execute(const EvalFlags& flags) {
  if (flags.golden.empty() && flags.text.empty()) {
    return Error{ErrorCode::kInvalidArgument, "--golden FILE or --text FILE is needed"};
  }
  LILY_TRY(const auto engine, open_engine(flags.engine, {.quiet = flags.quiet}));
  LILY_TRY(const auto rows, read_rows(flags, engine->tokenizer()));
  LILY_TRY(const auto other, open_other(flags));
  ProgressLine line(!flags.quiet);
  InterruptScope interrupt;
  EvalOptions options;
  options.against = other.get();
  options.cancel = interrupt.flag();
  options.progress = [&line](int done, int total) {
    line.show("evaluating", static_cast<double>(done) / total, fmt::format("{} texts", total));
  };
  LILY_TRY(const auto report, evaluate(*engine, rows, options));
  line.clear();
  const std::string& name = engine->backend().description;
  const std::string against = other ? other->backend().description : "";
  const auto keep = nlohmann::json::error_handler_t::replace;
  print_out(flags.json ? as_json(report, name, against).dump(2, ' ', false, keep) + "\n"
                       : as_table(report, name, against));
  return 0;
}

}  // namespace lily::cli
