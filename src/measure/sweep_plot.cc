// From a sweep's rows to charts, and from a record to its files.
#include "measure/sweep_plot.h"

#include <algorithm>

#include "measure/engine_process.h"
#include "measure/line_chart.h"
#include "measure/sweep_summary.h"

namespace lily {
namespace {

std::string date_of(const SweepRecord& record) {
  return record.measurements.empty() ? "" : record.measurements.back().date.substr(0, 10);
}

// Model, machine and date, as far as they are known.
std::string words_of(const SweepRecord& record) {
  std::string words = sweep_title(record);
  const auto add = [&](const std::string& more) {
    if (!more.empty()) words += (words.empty() ? "" : "; ") + more;
  };
  if (!record.hellos.front().empty()) {
    if (const auto hello = parse_hello(record.hellos.front())) add(hello->system);
  }
  add(date_of(record));
  return words;
}

}  // namespace

std::string sweep_svg(const SweepRecord& record, SweepKind kind) {
  const auto rows = summarise(record, kind);
  if (rows.empty()) return "";
  const bool prefill = kind == SweepKind::kPrefill;
  LineChart chart{.title = prefill ? "Prefill" : "Decode",
                  .below_title = words_of(record),
                  .x_label = prefill ? "tokens of the prompt" : "positions in the cache",
                  .y_label = "tokens/s",
                  .series = {},
                  .ceiling = {},
                  .ceiling_name = prefill ? "ceiling: multiply-adds" : "ceiling: memory read"};
  for (std::size_t i = 0; i < record.options.engines.size(); ++i) {
    ChartSeries series{.name = record.options.engines[i].name, .points = {}};
    for (const auto& row : rows) {
      if (row.cells[i].rate) series.points.emplace_back(row.point.length, *row.cells[i].rate);
    }
    chart.series.push_back(std::move(series));
  }
  for (const auto& row : rows) {
    if (row.ceiling > 0 && row.cells.front().rate)
      chart.ceiling.emplace_back(row.point.length, row.ceiling);
  }
  const bool is_empty = std::all_of(chart.series.begin(), chart.series.end(),
                                    [](const auto& series) { return series.points.empty(); });
  return is_empty ? "" : line_chart(chart);
}

Result<void> write_sweep(const Path& folder, const SweepRecord& record) {
  LILY_RETURN_IF_ERROR(save_record(folder, record));
  LILY_RETURN_IF_ERROR(save_text(folder / "results.csv", record_csv(record)));
  for (const auto& [kind, name] : {std::pair(SweepKind::kPrefill, "prefill.svg"),
                                   std::pair(SweepKind::kDecode, "decode.svg")}) {
    if (const auto picture = sweep_svg(record, kind); !picture.empty())
      LILY_RETURN_IF_ERROR(save_text(folder / name, picture));
  }
  return {};
}

}  // namespace lily
