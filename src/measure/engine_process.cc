// The protocol, from the side that asks.
#include "measure/engine_process.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

namespace lily {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr double kLeaveSeconds = 5;  // To end of its own accord.
constexpr std::size_t kQuotedBytes = 120;
constexpr std::size_t kMostLogBytes = std::size_t{16} << 20;
constexpr int kMostTokens = 1 << 24;

Error nonsense(const std::string& line, std::string_view expected) {
  const std::string quoted =
      line.size() > kQuotedBytes ? line.substr(0, kQuotedBytes) + "..." : line;
  return {ErrorCode::kCorrupt, fmt::format("said '{}', expected {}", quoted, expected)};
}

Result<ordered_json> parse_object(const std::string& line) {
  auto object = ordered_json::parse(line, nullptr, false);
  if (!object.is_object()) return nonsense(line, "a JSON object");
  return object;
}

std::string text_of(const ordered_json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// 0 where there is no such number.
double number_of(const ordered_json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

EngineWork work_of(const ordered_json& work) {
  return {.weight_bytes = number_of(work, "weight_bytes"),
          .state_bytes = number_of(work, "state_bytes"),
          .kv_bytes_per_position = number_of(work, "kv_bytes_per_position"),
          .multiply_adds = number_of(work, "multiply_adds"),
          .head_multiply_adds = number_of(work, "head_multiply_adds")};
}

// No engine is faster than the clock of who asked it.
Result<Timing> read_timing(const std::string& line, int asked, double passed_seconds) {
  LILY_TRY(const auto answer, parse_object(line));
  const double seconds = number_of(answer, "seconds");
  if (!(seconds > 0 && std::isfinite(seconds))) return nonsense(line, "seconds above 0");
  if (seconds > passed_seconds) {
    return nonsense(line, fmt::format("no more than the {:.6f} s that passed", passed_seconds));
  }
  const double tokens = answer.contains("tokens") ? number_of(answer, "tokens") : asked;
  if (!(tokens >= 1 && tokens <= 2.0 * asked)) {
    return nonsense(line, fmt::format("1 to {} tokens where {} were asked for", 2 * asked, asked));
  }
  return Timing{.seconds = seconds, .tokens = static_cast<int>(tokens)};
}

std::string request_of(const SweepPoint& point) {
  return point.kind == SweepKind::kPrefill
             ? fmt::format(R"({{"prefill": {}}})", point.length)
             : fmt::format(R"({{"depth": {}, "decode": {}}})", point.length, point.tokens);
}

}  // namespace

Result<EngineHello> parse_hello(const std::string& line) {
  LILY_TRY(const auto hello, parse_object(line));
  EngineHello out{.engine = text_of(hello, "engine"),
                  .version = text_of(hello, "version"),
                  .system = text_of(hello, "system"),
                  .model = text_of(hello, "model"),
                  .json = line};
  if (const auto error = text_of(hello, "error"); !error.empty())
    return Error{ErrorCode::kUnsupported, error};
  if (out.engine.empty() || out.version.empty())
    return nonsense(line, R"(a first line with "engine" and "version")");
  const double context = number_of(hello, "context");
  if (!(context >= 0 && context <= kMostTokens))
    return nonsense(line, fmt::format("a context of 0 to {} tokens", kMostTokens));
  out.context_tokens = static_cast<int>(context);
  if (hello.contains("work")) out.work = work_of(hello["work"]);
  return out;
}

Result<std::unique_ptr<EngineProcess>> EngineProcess::start(const Options& options) {
  LILY_TRY(auto process, LineProcess::start("exec " + options.command, options.log));
  std::unique_ptr<EngineProcess> engine(new EngineProcess(options, std::move(process)));
  LILY_RETURN_IF_ERROR(engine->greet());
  return engine;
}

EngineProcess::~EngineProcess() {
  process_->stop(alive_ ? kLeaveSeconds : 0);
}

Result<void> EngineProcess::greet() {
  const auto line = process_->read_line(options_.limit_seconds, options_.cancel);
  if (!line) return explained(line.error());
  LILY_TRY(hello_, parse_hello(*line));
  alive_ = true;
  return {};
}

Error EngineProcess::explained(Error error) const {
  if (error.code != ErrorCode::kDevice) return error;
  const auto log = read_file(options_.log, kMostLogBytes);
  const auto end = log ? log->find_last_not_of(" \n") : std::string::npos;
  if (end == std::string::npos) return error;
  const auto begin = log->rfind('\n', end);
  error.message += ": " + log->substr(begin + 1, end - begin);
  return error;
}

// An error in the engine's words is the caller's error; any other trouble is the end of the
// process.
Result<std::string> EngineProcess::exchange(const std::string& request) {
  alive_ = false;
  if (auto sent = process_->write_line(request); !sent) return explained(sent.error());
  auto line = process_->read_line(options_.limit_seconds, options_.cancel);
  if (!line) return explained(line.error());
  LILY_TRY(const auto answer, parse_object(*line));
  alive_ = true;
  if (const auto error = text_of(answer, "error"); !error.empty())
    return Error{ErrorCode::kUnsupported, error};
  return line;
}

Result<Timing> EngineProcess::measure(const SweepPoint& point) {
  const auto start = Clock::now();
  LILY_TRY(const auto line, exchange(request_of(point)));
  const std::chrono::duration<double> passed = Clock::now() - start;
  auto timing = read_timing(line, point.tokens, passed.count());
  alive_ = timing.has_value();
  return timing;
}

Result<MachineCeiling> EngineProcess::limits() {
  LILY_TRY(const auto line, exchange(R"({"limits": true})"));
  LILY_TRY(const auto answer, parse_object(line));
  return MachineCeiling{.read_bytes_per_second = number_of(answer, "read_bytes_per_second"),
                        .multiply_adds_per_second = number_of(answer, "multiply_adds_per_second"),
                        .date = text_of(answer, "date")};
}

}  // namespace lily
