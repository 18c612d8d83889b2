// Writing and reading what a sweep measured.
#include "measure/sweep_record.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

namespace lily {
namespace {

using nlohmann::ordered_json;

constexpr const char* kFileName = "results.json";
constexpr const char* kSchema = "lily sweep 1";
constexpr std::size_t kMostRecordBytes = std::size_t{64} << 20;

const char* kind_name(SweepKind kind) {
  return kind == SweepKind::kPrefill ? "prefill" : "decode";
}

ordered_json options_json(const SweepOptions& o) {
  ordered_json engines = ordered_json::array();
  for (const auto& engine : o.engines)
    engines.push_back({{"name", engine.name}, {"command", engine.command}});
  return {{"title", o.title},
          {"engines", std::move(engines)},
          {"lengths", o.lengths},
          {"depths", o.depths},
          {"decode_tokens", o.decode_tokens},
          {"rounds", o.rounds},
          {"one_at_a_time", o.one_at_a_time},
          {"warm_up_tokens", o.warm_up_tokens},
          {"pause_seconds", o.pause_seconds},
          {"limit_seconds", o.limit_seconds}};
}

ordered_json ceiling_json(const MachineCeiling& c) {
  return {{"date", c.date},
          {"read_bytes_per_second", c.read_bytes_per_second},
          {"multiply_adds_per_second", c.multiply_adds_per_second}};
}

ordered_json measurement_json(const SweepMeasurement& m) {
  ordered_json out = {{"round", m.round},
                      {"engine", m.engine},
                      {"kind", kind_name(m.point.kind)},
                      {"length", m.point.length},
                      {"tokens", m.point.tokens}};
  if (m.error.empty()) {
    out["counted_tokens"] = m.timing.tokens;
    out["seconds"] = m.timing.seconds;
    out["tokens_per_second"] = m.timing.rate();
  } else {
    out["error"] = m.error;
  }
  out["date"] = m.date;
  return out;
}

// Fields of an object, each checked; the first that is wrong is kept.
class Fields {
 public:
  Fields(const ordered_json& object, std::string where)
      : object_(object), where_(std::move(where)) {
    if (!object_.is_object()) fail(where_.empty() ? "the file" : where_, "a JSON object");
  }

  std::string text(const char* name) {
    const auto* found = find(name);
    if (found != nullptr && found->is_string()) return found->get<std::string>();
    fail(where_ + name, "a string");
    return "";
  }
  double number(const char* name, double least, double most) {
    const auto* found = find(name);
    const double value = found != nullptr && found->is_number() ? found->get<double>() : NAN;
    if (value >= least && value <= most) return value;
    fail(where_ + name, fmt::format("a number from {:g} to {:g}", least, most));
    return least;
  }
  int count(const char* name, int least) {
    constexpr int kMost = 1 << 24;
    return static_cast<int>(number(name, least, kMost));
  }
  bool flag(const char* name) {
    const auto* found = find(name);
    if (found != nullptr && found->is_boolean()) return found->get<bool>();
    fail(where_ + name, "true or false");
    return false;
  }
  const ordered_json& list(const char* name) {
    static const ordered_json kNone = ordered_json::array();
    const auto* found = find(name);
    if (found != nullptr && found->is_array()) return *found;
    fail(where_ + name, "a list");
    return kNone;
  }
  std::vector<int> counts(const char* name) {
    std::vector<int> out;
    for (const auto& value : list(name)) {
      if (!value.is_number_integer())
        fail(where_ + name, "whole numbers");
      else
        out.push_back(value.get<int>());
    }
    return out;
  }
  void fail(const std::string& what, const std::string& expected) {
    if (error_.empty()) error_ = what + ": expected " + expected;
  }
  Result<void> check() const {
    if (error_.empty()) return {};
    return Error{ErrorCode::kCorrupt, error_};
  }

 private:
  const ordered_json* find(const char* name) const {
    const auto found = object_.is_object() ? object_.find(name) : object_.end();
    return found != object_.end() ? &*found : nullptr;
  }

  const ordered_json& object_;
  std::string where_, error_;
};

Result<SweepOptions> parse_options(const ordered_json& object) {
  constexpr double kMostSeconds = 1e9;
  Fields fields(object, "options.");
  SweepOptions out;
  out.title = fields.text("title");
  for (const auto& entry : fields.list("engines")) {
    Fields engine(entry, "options.engines[].");
    out.engines.push_back({engine.text("name"), engine.text("command")});
    LILY_RETURN_IF_ERROR(engine.check());
  }
  out.lengths = fields.counts("lengths");
  out.depths = fields.counts("depths");
  out.decode_tokens = fields.count("decode_tokens", 0);
  out.rounds = fields.count("rounds", 1);
  out.one_at_a_time = fields.flag("one_at_a_time");
  out.warm_up_tokens = fields.count("warm_up_tokens", 0);
  out.pause_seconds = fields.number("pause_seconds", 0, kMostSeconds);
  out.limit_seconds = fields.number("limit_seconds", 0, kMostSeconds);
  LILY_RETURN_IF_ERROR(fields.check());
  return out;
}

Result<MachineCeiling> parse_ceiling(const ordered_json& object) {
  constexpr double kMostRate = 1e18;
  Fields fields(object, "limits[].");
  MachineCeiling out{
      .read_bytes_per_second = fields.number("read_bytes_per_second", 0, kMostRate),
      .multiply_adds_per_second = fields.number("multiply_adds_per_second", 0, kMostRate),
      .date = fields.text("date")};
  LILY_RETURN_IF_ERROR(fields.check());
  return out;
}

Result<SweepMeasurement> parse_measurement(const ordered_json& object) {
  Fields fields(object, "measurements[].");
  SweepMeasurement out;
  out.round = fields.count("round", 1);
  out.engine = fields.text("engine");
  const std::string kind = fields.text("kind");
  if (kind != "prefill" && kind != "decode")
    fields.fail("measurements[].kind", "prefill or decode");
  out.point.kind = kind == "decode" ? SweepKind::kDecode : SweepKind::kPrefill;
  out.point.length = fields.count("length", 1);
  out.point.tokens = fields.count("tokens", 1);
  out.date = fields.text("date");
  if (object.is_object() && object.contains("error")) {
    out.error = fields.text("error");
  } else {
    out.timing.tokens = fields.count("counted_tokens", 1);
    out.timing.seconds = fields.number("seconds", 1e-9, 1e9);
  }
  LILY_RETURN_IF_ERROR(fields.check());
  return out;
}

// Quoted, as a spreadsheet reads it.
std::string csv_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out.append(c == '"' ? 2 : 1, c);
  return out + "\"";
}

Result<std::vector<std::string>> parse_hellos(Fields& fields, std::size_t n_engines) {
  std::vector<std::string> out;
  for (const auto& hello : fields.list("engines"))
    out.push_back(hello.is_null() ? "" : hello.dump());
  if (out.size() != n_engines) fields.fail("engines", "as many as in options.engines");
  LILY_RETURN_IF_ERROR(fields.check());
  return out;
}

}  // namespace

std::string record_json(const SweepRecord& record) {
  ordered_json out = {{"schema", kSchema},
                      {"options", options_json(record.options)},
                      {"engines", ordered_json::array()},
                      {"limits", ordered_json::array()},
                      {"measurements", ordered_json::array()}};
  for (const auto& hello : record.hellos)
    out["engines"].push_back(hello.empty() ? ordered_json() : ordered_json::parse(hello));
  for (const auto& ceiling : record.ceilings) out["limits"].push_back(ceiling_json(ceiling));
  for (const auto& m : record.measurements) out["measurements"].push_back(measurement_json(m));
  return out.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Result<SweepRecord> parse_record(const std::string& text) {
  const auto object = ordered_json::parse(text, nullptr, false);
  Fields fields(object, "");
  if (const auto schema = fields.text("schema"); schema != kSchema)
    fields.fail("schema", fmt::format("'{}'", kSchema));
  LILY_RETURN_IF_ERROR(fields.check());
  SweepRecord out;
  LILY_TRY(out.options, parse_options(object.value("options", ordered_json())));
  LILY_TRY(out.hellos, parse_hellos(fields, out.options.engines.size()));
  for (const auto& entry : fields.list("limits")) {
    LILY_TRY(auto ceiling, parse_ceiling(entry));
    out.ceilings.push_back(std::move(ceiling));
  }
  for (const auto& entry : fields.list("measurements")) {
    LILY_TRY(auto measurement, parse_measurement(entry));
    out.measurements.push_back(std::move(measurement));
  }
  LILY_RETURN_IF_ERROR(fields.check());
  return out;
}

Result<SweepRecord> load_record(const Path& folder) {
  const Path file = folder / kFileName;
  LILY_TRY(const auto text, read_file(file, kMostRecordBytes));
  auto record = parse_record(text);
  if (!record) return with_context(file.string(), record.error());
  return record;
}

Result<void> save_record(const Path& folder, const SweepRecord& record) {
  return save_text(folder / kFileName, record_json(record));
}

Result<void> save_text(const Path& file, std::string_view text) {
  LILY_TRY(auto out, AtomicFile::create(file));
  LILY_RETURN_IF_ERROR(out.append(std::as_bytes(std::span<const char>(text.data(), text.size()))));
  return out.commit();
}

Result<void> check_same_options(const SweepOptions& before, const SweepOptions& now) {
  const ordered_json was = options_json(before), is = options_json(now);
  for (const auto& [name, value] : was.items()) {
    if (is.at(name) == value) continue;
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: what was begun there has {}, not {}; name another folder, or the "
                             "same options to go on",
                             name, value.dump(), is.at(name).dump())};
  }
  return {};
}

std::string record_csv(const SweepRecord& record) {
  std::string out = "kind,length,tokens,engine,round,seconds,tokens_per_second,error\n";
  for (const auto& m : record.measurements) {
    const std::string figures =
        m.error.empty() ? fmt::format("{:.6f},{:.2f},", m.timing.seconds, m.timing.rate())
                        : ",," + csv_text(m.error);
    out += fmt::format("{},{},{},{},{},{}\n", kind_name(m.point.kind), m.point.length,
                       m.timing.tokens, m.engine, m.round, figures);
  }
  return out;
}

}  // namespace lily
