// Writing, reading and showing what an ablation measured.
#include "measure/ablation_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "measure/bar_chart.h"
#include "measure/published.h"
#include "measure/sweep_record.h"

namespace lily {
namespace {

using nlohmann::ordered_json;

constexpr const char* kSchema = "lily ablate 1";
constexpr const char* kFileName = "ablation.json";
constexpr std::size_t kMostRecordBytes = std::size_t{64} << 20;

const AblationFigure* figure_at(const AblationResult& result, const SweepPoint& point) {
  const auto found = std::find_if(result.figures.begin(), result.figures.end(),
                                  [&](const auto& figure) { return figure.point == point; });
  return found == result.figures.end() ? nullptr : &*found;
}

const AblationResult* control_of(const AblationRecord& record) {
  for (const auto& result : record.results) {
    if (result.name == kControlName) return &result;
  }
  return nullptr;
}

// A mechanism at a point, judged.
struct Finding {
  const AblationResult* result;
  const AblationFigure* figure;
  Spread worth;
  Verdict verdict;
  std::optional<double> published;
};

std::vector<Finding> findings_at(const AblationRecord& record, const SweepPoint& point) {
  std::vector<Finding> out;
  for (const auto& result : record.results) {
    const auto* figure = figure_at(result, point);
    if (figure == nullptr || worth_per_cent(*figure).empty()) continue;
    const bool is_control = result.name == kControlName;
    out.push_back({.result = &result,
                   .figure = figure,
                   .worth = spread_of(worth_per_cent(*figure)),
                   .verdict = is_control ? Verdict::kWithin : judge(*figure, control_of(record)),
                   .published = published_worth(result.name, point)});
  }
  return out;
}

std::vector<SweepPoint> points_of(const AblationRecord& record) {
  std::vector<SweepPoint> out;
  for (const auto& result : record.results) {
    for (const auto& figure : result.figures) {
      if (std::find(out.begin(), out.end(), figure.point) == out.end()) out.push_back(figure.point);
    }
  }
  return out;
}

ordered_json figure_json(const Finding& finding) {
  const auto& [point, with, without] = *finding.figure;
  ordered_json out = {
      {"kind", point.kind == SweepKind::kPrefill ? "prefill" : "decode"},
      {"length", point.length},
      {"tokens", point.tokens},
      {"tokens_per_second_with", with},
      {"tokens_per_second_without", without},
      {"worth_per_cent",
       {{"min", finding.worth.low}, {"median", finding.worth.median}, {"max", finding.worth.high}}},
      {"verdict", verdict_name(finding.verdict)}};
  if (finding.published) out["published_per_cent"] = *finding.published;
  return out;
}

ordered_json result_json(const AblationRecord& record, const AblationResult& result) {
  ordered_json out = {{"name", result.name},
                      {"without", result.without},
                      {"on_by_default", result.is_default},
                      {"seconds", result.seconds}};
  if (!result.error.empty()) out["error"] = result.error;
  out["figures"] = ordered_json::array();
  for (const auto& point : points_of(record)) {
    for (const auto& finding : findings_at(record, point)) {
      if (finding.result == &result) out["figures"].push_back(figure_json(finding));
    }
  }
  return out;
}

// Throws what the library throws where a field is missing or another kind of value.
AblationFigure parse_figure(const ordered_json& object) {
  const bool prefill = object.at("kind") == "prefill";
  return {.point = {.kind = prefill ? SweepKind::kPrefill : SweepKind::kDecode,
                    .length = object.at("length").get<int>(),
                    .tokens = object.at("tokens").get<int>()},
          .with = object.at("tokens_per_second_with").get<std::vector<double>>(),
          .without = object.at("tokens_per_second_without").get<std::vector<double>>()};
}

AblationResult parse_result(const ordered_json& object) {
  AblationResult out{.name = object.at("name").get<std::string>(),
                     .without = object.at("without").get<std::string>(),
                     .is_default = object.at("on_by_default").get<bool>(),
                     .seconds = object.at("seconds").get<double>(),
                     .error = object.value("error", "")};
  for (const auto& figure : object.at("figures")) out.figures.push_back(parse_figure(figure));
  return out;
}

AblationRecord parse_object(const ordered_json& object) {
  AblationRecord out{.model = object.at("model").get<std::string>(),
                     .system = object.at("system").get<std::string>(),
                     .date = object.at("date").get<std::string>(),
                     .provenance = object.at("provenance").dump(),
                     .rounds = object.at("rounds").get<int>()};
  for (const auto& result : object.at("mechanisms")) out.results.push_back(parse_result(result));
  return out;
}

bool is_plausible(const AblationFigure& figure) {
  const auto is_rate = [](double rate) { return rate > 0 && std::isfinite(rate); };
  return figure.point.length > 0 && figure.with.size() == figure.without.size() &&
         std::all_of(figure.with.begin(), figure.with.end(), is_rate) &&
         std::all_of(figure.without.begin(), figure.without.end(), is_rate);
}

std::string finding_line(const Finding& finding) {
  const auto& [low, median, high] = finding.worth;
  const std::string name = finding.result->name + (finding.result->is_default ? "" : " (off)");
  std::string line =
      fmt::format("  {:<26}{:>+8.1f} % ({:+.1f} .. {:+.1f})", name, median, low, high);
  line = fmt::format("{:<64}{}", line, verdict_name(finding.verdict));
  if (finding.published) line += fmt::format(", published {:+.1f} %", *finding.published);
  return line + "\n";
}

const char* look_of(Verdict verdict) {
  return verdict == Verdict::kHelps ? "helps" : verdict == Verdict::kCosts ? "costs" : "within";
}

}  // namespace

std::string ablation_json(const AblationRecord& record) {
  ordered_json out = {{"schema", kSchema},
                      {"model", record.model},
                      {"system", record.system},
                      {"date", record.date},
                      {"provenance", ordered_json::parse(record.provenance)},
                      {"rounds", record.rounds},
                      {"mechanisms", ordered_json::array()}};
  for (const auto& result : record.results)
    out["mechanisms"].push_back(result_json(record, result));
  return out.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Result<AblationRecord> parse_ablation(const std::string& text) {
  const auto object = ordered_json::parse(text, nullptr, false);
  if (!object.is_object() || object.value("schema", ordered_json()) != kSchema)
    return Error{ErrorCode::kCorrupt, fmt::format("schema: expected '{}'", kSchema)};
  try {
    auto record = parse_object(object);
    for (const auto& result : record.results) {
      if (std::all_of(result.figures.begin(), result.figures.end(), is_plausible)) continue;
      return Error{ErrorCode::kCorrupt,
                   result.name + ": expected as many rates above 0 with as without"};
    }
    return record;
  } catch (const ordered_json::exception& wrong) {
    return Error{ErrorCode::kCorrupt, wrong.what()};
  }
}

Result<AblationRecord> load_ablation(const Path& folder) {
  const Path file = folder / kFileName;
  LILY_TRY(const auto text, read_file(file, kMostRecordBytes));
  auto record = parse_ablation(text);
  if (!record) return with_context(file.string(), record.error());
  return record;
}

std::string ablation_csv(const AblationRecord& record) {
  std::string out =
      "kind,length,mechanism,round,tokens_per_second_with,tokens_per_second_without\n";
  for (const auto& result : record.results) {
    for (const auto& [point, with, without] : result.figures) {
      for (std::size_t i = 0; i < with.size(); ++i) {
        out += fmt::format("{},{},{},{},{:.2f},{:.2f}\n",
                           point.kind == SweepKind::kPrefill ? "prefill" : "decode", point.length,
                           result.name, i + 1, with[i], without[i]);
      }
    }
  }
  return out;
}

std::string ablation_text(const AblationRecord& record) {
  std::string text;
  for (const auto& point : points_of(record)) {
    text += point_name(point) + "\n";
    for (const auto& finding : findings_at(record, point)) text += finding_line(finding);
  }
  for (const auto& result : record.results) {
    if (!result.error.empty())
      text += fmt::format("  {:<26}not measured: {}\n", result.name, result.error);
  }
  return text + fmt::format(
                    "per cent more tokens/s with it than without, median (least .. most) of {} "
                    "round(s); (off): it is off by default\n",
                    record.rounds);
}

std::string ablation_svg(const AblationRecord& record) {
  BarChart chart{.title = "What each mechanism is worth",
                 .below_title = record.model + "; " + record.system + "; " +
                                record.date.substr(0, 10) +
                                "; per cent more tokens/s than without it",
                 .panels = {}};
  for (const auto& point : points_of(record)) {
    BarPanel panel{.title = point_name(point), .bars = {}};
    for (const auto& finding : findings_at(record, point)) {
      panel.bars.push_back({.name = finding.result->name,
                            .per_cent = finding.worth,
                            .look = look_of(finding.verdict),
                            .published = finding.published});
    }
    chart.panels.push_back(std::move(panel));
  }
  return bar_chart(chart);
}

Result<void> write_ablation(const Path& folder, const AblationRecord& record) {
  LILY_RETURN_IF_ERROR(save_text(folder / kFileName, ablation_json(record)));
  LILY_RETURN_IF_ERROR(save_text(folder / "ablation.csv", ablation_csv(record)));
  return save_text(folder / "ablation.svg", ablation_svg(record));
}

}  // namespace lily
