// lily bench: speed of prefill and decode, as a share of what the machine can read and compute.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/machine.h"
#include "cli/machine_limits.h"
#include "cli/model_source.h"
#include "measure/limits.h"
#include "measure/speed.h"
#include "measure/spread.h"
#include "measure/work.h"

namespace lily::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kReadBytes = std::size_t{512} << 20;

struct Measured {
  int prompt_tokens = 0, tokens = 0;
  Spread rate;
  double barriers = 0, launches = 0;  // Per decoded token.
  // The machine's own rates, the mean of just before and just after: it may be shared, and drift.
  double read_rate = 0, integer_rate = 0;
};

LimitsRequest limits_request(const BenchFlags& flags) {
  return {.threads = flags.engine.threads, .isa = flags.engine.isa, .bytes = kReadBytes};
}

class Bench {
 public:
  Bench(Engine& engine, const BenchFlags& flags, const MachineLimits& limits,
        InterruptScope& interrupt)
      : flags_(flags), limits_(limits), meter_(engine, interrupt.flag()) {}

  Result<Measured> prefill(int n_tokens) {
    // A first prompt brings pages into memory and wakes the threads; it does not count.
    LILY_RETURN_IF_ERROR(meter_.prefill(n_tokens));
    std::vector<double> rates;
    for (int run = 0; run < flags_.repeat; ++run) {
      LILY_TRY(const auto rate, meter_.prefill(n_tokens));
      rates.push_back(rate);
    }
    return beside_the_machine({n_tokens, 1, spread_of(std::move(rates))});
  }
  Result<Measured> decode(int depth) {
    std::vector<double> rates;
    DecodeSpeed last;
    for (int run = 0; run < flags_.repeat; ++run) {
      LILY_TRY(last, meter_.decode(depth, flags_.decode_tokens));
      rates.push_back(last.tokens_per_second);
    }
    return beside_the_machine({depth, flags_.decode_tokens + 1, spread_of(std::move(rates)), last.barriers, last.launches});
  }

 private:
  Result<Measured> beside_the_machine(Measured out) {
    const MachineLimits before = limits_;
    LILY_TRY(limits_, measure_limits(limits_request(flags_)));
    out.read_rate = (before.read_all + limits_.read_all) / 2;
    out.integer_rate = (before.integer_all + limits_.integer_all) / 2;
    return out;
  }

  const BenchFlags& flags_;
  MachineLimits limits_;  // As measured last.
  SpeedMeter meter_;
};

ordered_json spread_json(const Spread& s) {
  return {{"min", s.low}, {"median", s.median}, {"max", s.high}};
}

ordered_json prefill_json(const Measured& m, const TokenWork& work) {
  const double per_token = static_cast<double>(work.multiply_adds) +
                           static_cast<double>(work.head_multiply_adds) / m.prompt_tokens;
  const double achieved = m.rate.median * per_token;
  return {{"tokens", m.prompt_tokens},
          {"tokens_per_second", spread_json(m.rate)},
          {"multiply_adds_per_token", per_token},
          {"multiply_adds_per_second", achieved},
          {"integer_multiply_adds_per_second", m.integer_rate},
          {"share_of_integer_rate", achieved / m.integer_rate}};
}

ordered_json decode_json(const Measured& m, const TokenWork& work) {
  const auto per_token = static_cast<double>(work.weight_bytes + work.state_bytes + work.kv_bytes);
  const double achieved = m.rate.median * per_token;
  return {{"depth", m.prompt_tokens},
          {"tokens", m.tokens - 1},
          {"tokens_per_second", spread_json(m.rate)},
          {"bytes_per_token", per_token},
          {"weight_bytes_per_token", work.weight_bytes},
          {"state_bytes_per_token", work.state_bytes},
          {"kv_bytes_per_token", work.kv_bytes},
          {"bytes_per_second", achieved},
          {"read_bytes_per_second", m.read_rate},
          {"share_of_read_rate", achieved / m.read_rate},
          {"barriers_per_token", m.barriers},
          {"kernels_per_token", m.launches}};
}

std::string rate_line(const ordered_json& rate) {
  return fmt::format("{:.1f} tokens/s ({:.1f} .. {:.1f})", rate["median"].get<double>(),
                     rate["min"].get<double>(), rate["max"].get<double>());
}

std::string as_table(const ordered_json& out, const MachineLimits& limits) {
  std::string text = out["backend"].get<std::string>() + "\n" + machine_limits_table(limits);
  for (const auto& row : out["prefill"]) {
    text +=
        fmt::format("prefill {:6}  {}, {:.1f} G multiply-adds/s, {:.0f} % of the integer rate\n",
                    row["tokens"].get<int>(), rate_line(row["tokens_per_second"]),
                    row["multiply_adds_per_second"].get<double>() / 1e9,
                    100.0 * row["share_of_integer_rate"].get<double>());
  }
  for (const auto& row : out["decode"]) {
    text += fmt::format(
        "decode at {:6}  {}, {} and {:.0f} barriers a token, {:.2f} GB/s, {:.0f} % of the read "
        "rate\n",
        row["depth"].get<int>(), rate_line(row["tokens_per_second"]),
        human_bytes(row["bytes_per_token"].get<double>()), row["barriers_per_token"].get<double>(),
        row["bytes_per_second"].get<double>() / 1e9,
        100.0 * row["share_of_read_rate"].get<double>());
    const auto kernels = row["kernels_per_token"].get<double>();
    if (kernels > 0) text += fmt::format("  {:.0f} kernels a token\n", kernels);
  }
  text += fmt::format("memory      {} resident, {} of it not the mapped image\n",
                      human_bytes(out["memory"]["resident_bytes"].get<double>()),
                      human_bytes(out["memory"]["anonymous_bytes"].get<double>()));
  return text;
}

Result<ordered_json> measure_all(Engine& engine, const BenchFlags& flags,
                                 const MachineLimits& limits) {
  InterruptScope interrupt;
  Bench bench(engine, flags, limits, interrupt);
  ordered_json out = {{"backend", engine.backend().description},
                      {"limits", ordered_json::parse(machine_limits_json(limits))},
                      {"prefill", ordered_json::array()},
                      {"decode", ordered_json::array()}};
  for (const int n : flags.prefill) {
    LILY_TRY(const auto measured, bench.prefill(n));
    out["prefill"].push_back(prefill_json(measured, work_per_token(engine.spec(), 0)));
  }
  for (const int depth : flags.decode_tokens > 0 ? flags.depths : std::vector<int>{}) {
    LILY_TRY(const auto measured, bench.decode(depth));
    const auto mean_depth = depth + flags.decode_tokens / 2;
    out["decode"].push_back(decode_json(measured, work_per_token(engine.spec(), mean_depth)));
  }
  const ProcessMemory memory = process_memory();
  out["memory"] = {{"resident_bytes", memory.resident_bytes},
                   {"anonymous_bytes", memory.anonymous_bytes}};
  return out;
}

}  // namespace

Result<int> execute(const BenchFlags& flags) {
  LILY_TRY(const auto limits, measure_limits(limits_request(flags)));
  LILY_TRY(const auto engine, open_engine(flags.engine, {}));
  LILY_TRY(const auto out, measure_all(*engine, flags, limits));
  print_out(flags.json ? out.dump(2) + "\n" : as_table(out, limits));
  return 0;
}

}  // namespace lily::cli
