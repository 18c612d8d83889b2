// lily bench serve: load on a running server, as a table or as one JSON object.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "measure/provenance.h"
#include "measure/server_load.h"

namespace lily::cli {
namespace {

using nlohmann::ordered_json;

constexpr int kRequestsWithoutWish = 100;

Result<ServerLoadOptions> options_of(const BenchServeFlags& flags) {
  ServerLoadOptions out{.url = flags.url,
                        .api_key = flags.api_key,
                        .model = flags.model,
                        .clients = flags.clients,
                        .requests = flags.requests,
                        .seconds = flags.seconds,
                        .rate = flags.rate,
                        .seed = flags.seed,
                        .prompt_words = flags.prompt_words,
                        .max_tokens = flags.max_tokens,
                        .retries = flags.retries,
                        .time_limit_s = flags.time_limit_s};
  if (out.requests == 0 && out.seconds == 0) out.requests = kRequestsWithoutWish;
  if (flags.trace.empty()) return out;
  LILY_TRY(out.trace, read_agent_trace(flags.trace));
  return out;
}

// 0 where nothing was counted.
double share(double part, double whole) {
  return whole > 0 ? part / whole : 0.0;
}

ordered_json percentiles_json(const Percentiles& p) {
  if (p.count == 0) return nullptr;
  return {{"count", p.count}, {"mean", p.mean}, {"p50", p.p50},
          {"p90", p.p90},     {"p99", p.p99},   {"max", p.most}};
}

ordered_json errors_json(const ServerLoadReport& r) {
  ordered_json out = ordered_json::object();
  for (const auto& [kind, errors] : r.errors)
    out[kind] = {{"count", errors.count}, {"example", errors.example}};
  return out;
}

// What was asked for: the measurement can be made again from it.
ordered_json wishes_json(const ServerLoadOptions& o, const Path& trace) {
  return {{"url", o.url},
          {"clients", o.clients},
          {"requests", o.requests},
          {"seconds", o.seconds},
          {"rate", o.rate},
          {"seed", o.seed},
          {"trace", trace.string()},
          {"prompt_words", o.prompt_words},
          {"max_tokens", o.max_tokens},
          {"retries", o.retries},
          {"time_limit_s", o.time_limit_s}};
}

ordered_json as_json(const ServerLoadReport& r, const ServerLoadOptions& options, const Path& trace,
                     bool interrupted) {
  return {{"provenance", ordered_json::parse(provenance_json(provenance_here(nullptr, {})))},
          {"options", wishes_json(options, trace)},
          {"model", r.model},
          {"interrupted", interrupted},
          {"seconds", r.seconds},
          {"started", r.started},
          {"answered", r.answered},
          {"under_way", r.under_way},
          {"retried", r.retried},
          {"errors", errors_json(r)},
          {"first_token_ms", percentiles_json(r.first_token_ms)},
          {"between_tokens_ms", percentiles_json(r.between_tokens_ms)},
          {"whole_ms", percentiles_json(r.whole_ms)},
          {"late_ms", percentiles_json(r.late_ms)},
          {"requests_per_second", share(r.answered, r.seconds)},
          {"tokens_per_second", share(static_cast<double>(r.tokens), r.seconds)},
          {"tokens", r.tokens},
          {"events", r.events},
          {"without_usage", r.without_usage},
          {"prompt_tokens", r.prompt_tokens},
          {"cached_tokens", r.cached_tokens},
          {"cached_share",
           r.with_cache > 0 ? ordered_json(share(static_cast<double>(r.cached_tokens),
                                                 static_cast<double>(r.prompt_tokens_with_cache)))
                            : ordered_json()}};
}

std::string row(const char* name, const Percentiles& p) {
  if (p.count == 0) return fmt::format("{:16} nothing measured\n", name);
  return fmt::format("{:16} {:10.1f} {:10.1f} {:10.1f} {:10.1f}\n", name, p.p50, p.p90, p.p99,
                     p.most);
}

std::string counts_table(const ServerLoadReport& r) {
  std::string out = fmt::format("requests         {} begun, {} answered in {:.1f} s", r.started,
                                r.answered, r.seconds);
  if (r.under_way > 0) out += fmt::format(", {} still under way", r.under_way);
  if (r.retried > 0) out += fmt::format(", {} times told to come back", r.retried);
  out += "\n";
  for (const auto& [kind, errors] : r.errors)
    out += fmt::format("  failed: {} of {} ({})\n", errors.count, kind, errors.example);
  return out;
}

std::string tokens_table(const ServerLoadReport& r) {
  std::string out =
      fmt::format("throughput       {:.1f} tokens/s, {:.2f} requests/s\n",
                  share(static_cast<double>(r.tokens), r.seconds), share(r.answered, r.seconds));
  if (r.without_usage > 0)
    out += fmt::format("  {} answers came without a count of tokens; their events stand for them\n",
                       r.without_usage);
  if (r.with_cache > 0) {
    out += fmt::format("cached           {:.1f} % of {} prompt tokens\n",
                       100 * share(static_cast<double>(r.cached_tokens),
                                   static_cast<double>(r.prompt_tokens_with_cache)),
                       r.prompt_tokens_with_cache);
  }
  return out;
}

std::string as_table(const ServerLoadReport& r, const ServerLoadOptions& options,
                     bool interrupted) {
  std::string out =
      fmt::format("{} at {}{}\n", r.model, options.url, interrupted ? ", interrupted" : "");
  out += counts_table(r);
  out += fmt::format("{:16} {:>10} {:>10} {:>10} {:>10}\n", "milliseconds", "50 %", "90 %", "99 %",
                     "most");
  out += row("first token", r.first_token_ms) + row("between tokens", r.between_tokens_ms) +
         row("whole answer", r.whole_ms);
  if (options.rate > 0) out += row("waited before", r.late_ms);
  return out + tokens_table(r);
}

// What share of the wish is done.
double done_share(const ServerLoadOptions& options, int done, double elapsed_s) {
  return options.requests > 0 ? static_cast<double>(done) / options.requests
                              : std::min(1.0, elapsed_s / options.seconds);
}

}  // namespace

Result<int> execute(const BenchServeFlags& flags) {
  LILY_TRY(auto options, options_of(flags));
  ProgressLine line(!flags.quiet);
  InterruptScope interrupt;
  options.cancel = interrupt.flag();
  options.progress = [&](int done, double elapsed_s) {
    const auto of = options.requests > 0 ? fmt::format("{} requests", options.requests)
                                         : fmt::format("{:.0f} s", options.seconds);
    line.show(fmt::format("{} answered or failed", done), done_share(options, done, elapsed_s), of);
  };
  LILY_TRY(const auto report, run_server_load(options));
  line.clear();
  const bool interrupted = interrupt.interrupted();
  const auto replace = nlohmann::json::error_handler_t::replace;
  print_out(flags.json
                ? as_json(report, options, flags.trace, interrupted).dump(2, ' ', false, replace) +
                      "\n"
                : as_table(report, options, interrupted));
  if (interrupted) return kInterruptedStatus;
  return 0;
}

}  // namespace lily::cli
