// The protocol, from the side that answers.
#include "measure/worker.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "measure/backend_limits.h"
#include "measure/speed.h"
#include "measure/work.h"

namespace lily {
namespace {

using nlohmann::ordered_json;

constexpr int kMostTokens = 1 << 24;
constexpr int kRepeats = 5, kRowsOfProducts = 2048;  // Of a device's limits.

ordered_json work_json(const ModelSpec& spec) {
  const TokenWork none = work_per_token(spec, 0), one = work_per_token(spec, 1);
  return {{"weight_bytes", none.weight_bytes},
          {"state_bytes", none.state_bytes},
          {"kv_bytes_per_position", one.kv_bytes},
          {"multiply_adds", none.multiply_adds},
          {"head_multiply_adds", none.head_multiply_adds}};
}

Result<int> count_of(const ordered_json& request, const char* name) {
  const auto found = request.find(name);
  if (found != request.end() && found->is_number_integer()) {
    const auto value = found->get<std::int64_t>();
    if (value >= 1 && value <= kMostTokens) return static_cast<int>(value);
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{}: expected a whole number from 1 to {}", name, kMostTokens)};
}

Result<ordered_json> prefill(Engine& engine, const ordered_json& request) {
  LILY_TRY(const int n_tokens, count_of(request, "prefill"));
  LILY_TRY(const double rate, SpeedMeter(engine, nullptr).prefill(n_tokens));
  return ordered_json{{"seconds", n_tokens / rate}};
}

Result<ordered_json> decode(Engine& engine, const ordered_json& request) {
  LILY_TRY(const int depth, count_of(request, "depth"));
  LILY_TRY(const int n_tokens, count_of(request, "decode"));
  LILY_TRY(const auto speed, SpeedMeter(engine, nullptr).decode(depth, n_tokens));
  return ordered_json{{"seconds", n_tokens / speed.tokens_per_second}};
}

// A device is measured by a backend beside the engine's, whose recordings stay as they are.
Result<DeviceRates> rates(const Engine& engine, const LimitsRequest& request) {
  const std::string& name = engine.backend().name;
  if (name == "cpu") {
    LILY_TRY(const auto machine, measure_limits(request));
    return DeviceRates{machine.read_all, machine.integer_all};
  }
  if (name != "cuda" && name != "metal")
    return Error{ErrorCode::kUnsupported, "limits of backend '" + name + "' mean nothing"};
  LILY_TRY(const auto backend, open_backend(name, {}));
  LILY_TRY(
      const auto steps,
      measure_steps(*backend, engine.spec(),
                    {.repeats = kRepeats, .read_bytes = request.bytes, .rows = kRowsOfProducts}));
  return device_rates(*backend, {}, steps);
}

Result<ordered_json> limits(const Engine& engine, const LimitsRequest& request) {
  LILY_TRY(const auto measured, rates(engine, request));
  return ordered_json{{"read_bytes_per_second", measured.bytes_per_second},
                      {"multiply_adds_per_second", measured.multiply_adds_per_second},
                      {"date", utc_now()}};
}

}  // namespace

std::string SweepWorker::hello() const {
  const Provenance& here = about_.provenance;
  const std::string processor = here.processor.empty() ? "" : here.processor + ", ";
  return ordered_json{
      {"engine", "Lily"},
      {"version", here.version + " (" + here.commit + ")"},
      {"system", processor + here.description},
      {"model", fmt::format("{}, {} layers", about_.model, engine_.spec().layer_kinds.size())},
      {"context", engine_.context_tokens()},
      {"work", work_json(engine_.spec())},
      {"provenance", ordered_json::parse(provenance_json(here))}}
      .dump();
}

std::string SweepWorker::answer(const std::string& line) {
  const auto request = ordered_json::parse(line, nullptr, false);
  const auto reply = [&]() -> Result<ordered_json> {
    if (request.contains("prefill")) return prefill(engine_, request);
    if (request.contains("decode")) return decode(engine_, request);
    if (request.contains("limits")) return limits(engine_, about_.limits);
    return Error{ErrorCode::kInvalidArgument,
                 R"(expected {"prefill": N}, {"depth": N, "decode": N} or {"limits": true})"};
  }();
  return (reply ? *reply : ordered_json{{"error", reply.error().message}})
      .dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace lily
