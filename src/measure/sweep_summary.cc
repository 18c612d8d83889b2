// Medians, ratios and the tables of a sweep.
#include "measure/sweep_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "measure/engine_process.h"

namespace lily {
namespace {

// Rates of one engine at one point, by round.
using Rates = std::map<int, double>;

std::optional<Spread> spread_if_any(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  return spread_of(std::move(values));
}

std::vector<double> values_of(const Rates& rates) {
  std::vector<double> out;
  for (const auto& [round, rate] : rates) out.push_back(rate);
  return out;
}

std::vector<double> ratios_of(const Rates& first, const Rates& other) {
  std::vector<double> out;
  for (const auto& [round, rate] : other) {
    const auto same_round = first.find(round);
    if (same_round != first.end()) out.push_back(same_round->second / rate);
  }
  return out;
}

class Summary {
 public:
  explicit Summary(const SweepRecord& record) : record_(record) {
    if (!record.hellos.empty() && !record.hellos.front().empty()) {
      if (const auto hello = parse_hello(record.hellos.front())) work_ = hello->work;
    }
    for (const auto& c : record.ceilings) {  // The mean of before and after.
      const auto n = static_cast<double>(record.ceilings.size());
      machine_.read_bytes_per_second += c.read_bytes_per_second / n;
      machine_.multiply_adds_per_second += c.multiply_adds_per_second / n;
    }
  }

  SweepRow row(const SweepPoint& point) const {
    SweepRow out{.point = point, .ceiling = ceiling_rate(point, work_, machine_)};
    Rates first;
    for (const auto& engine : record_.options.engines) {
      SweepCell cell;
      const Rates rates = rates_of(engine.name, point, cell.error);
      if (out.cells.empty())
        first = rates;
      else
        cell.ratio = spread_if_any(ratios_of(first, rates));
      cell.rate = spread_if_any(values_of(rates));
      out.cells.push_back(std::move(cell));
    }
    return out;
  }

 private:
  Rates rates_of(const std::string& engine, const SweepPoint& point, std::string& error) const {
    Rates out;
    for (const auto& m : record_.measurements) {
      if (m.engine != engine || m.point != point) continue;
      if (m.error.empty())
        out[m.round] = m.timing.rate();
      else
        error = m.error;
    }
    return out;
  }

  const SweepRecord& record_;
  EngineWork work_;
  MachineCeiling machine_;
};

std::string cell_text(const SweepCell& cell) {
  if (!cell.rate) return cell.error.empty() ? "-" : "failed";
  return fmt::format("{:.1f} ({:.1f} .. {:.1f})", cell.rate->median, cell.rate->low,
                     cell.rate->high);
}

std::string ratio_text(const std::optional<Spread>& ratio) {
  return ratio ? fmt::format("{:.2f} ({:.2f} .. {:.2f})", ratio->median, ratio->low, ratio->high)
               : "-";
}

std::string ceiling_text(const SweepRow& row) {
  if (row.ceiling <= 0) return "";
  const auto& ours = row.cells.front().rate;
  return fmt::format("  {:>10.1f}", row.ceiling) +
         (ours ? fmt::format(" {:>4.0f} %", 100 * ours->median / row.ceiling) : "");
}

std::string table(const SweepRecord& record, SweepKind kind, const std::vector<SweepRow>& rows) {
  constexpr int kCell = 32, kRatio = 25;
  const auto& engines = record.options.engines;
  std::string text =
      fmt::format("{:<10}", kind == SweepKind::kPrefill ? "prefill of" : "decode at");
  for (const auto& engine : engines) text += fmt::format("{:>{}}", engine.name, kCell);
  for (std::size_t i = 1; i < engines.size(); ++i)
    text += fmt::format("{:>{}}", engines[0].name + " : " + engines[i].name, kRatio);
  if (rows.front().ceiling > 0) text += "     ceiling  share";
  text += "\n";
  for (const auto& row : rows) {
    text += fmt::format("{:>10}", row.point.length);
    for (const auto& cell : row.cells) text += fmt::format("{:>{}}", cell_text(cell), kCell);
    for (std::size_t i = 1; i < row.cells.size(); ++i)
      text += fmt::format("{:>{}}", ratio_text(row.cells[i].ratio), kRatio);
    text += ceiling_text(row) + "\n";
  }
  return text;
}

// "llama.cpp: 4.40 x in prefill over 7 lengths (4.31 .. 4.65)"
std::string mean_text(const std::string& what, const MeanRatio& mean) {
  return fmt::format("{:.2f} x in {} over {} length{} ({:.2f} .. {:.2f})", mean.mean, what,
                     mean.n_rows, mean.n_rows == 1 ? "" : "s", mean.least, mean.most);
}

std::string means_text(const SweepRecord& record, const std::vector<SweepRow>& prefill,
                       const std::vector<SweepRow>& decode) {
  const auto& engines = record.options.engines;
  std::string text;
  for (std::size_t i = 1; i < engines.size(); ++i) {
    std::string means;
    for (const auto& [what, rows] :
         {std::pair("prefill", &prefill), std::pair("decode", &decode)}) {
      const MeanRatio mean = mean_ratio(*rows, i);
      if (mean.n_rows > 0) means += (means.empty() ? "" : ", ") + mean_text(what, mean);
    }
    if (!means.empty())
      text += fmt::format("{} beside {}: {}\n", engines[0].name, engines[i].name, means);
  }
  return text;
}

}  // namespace

std::vector<SweepRow> summarise(const SweepRecord& record, SweepKind kind) {
  const Summary summary(record);
  const bool prefill = kind == SweepKind::kPrefill;
  std::vector<SweepRow> out;
  for (const int length : prefill ? record.options.lengths : record.options.depths) {
    auto row = summary.row({kind, length, prefill ? length : record.options.decode_tokens});
    const auto told = [](const SweepCell& c) { return c.rate || !c.error.empty(); };
    if (std::any_of(row.cells.begin(), row.cells.end(), told)) out.push_back(std::move(row));
  }
  return out;
}

MeanRatio mean_ratio(const std::vector<SweepRow>& rows, std::size_t engine) {
  MeanRatio out;
  for (const auto& row : rows) {
    const auto& ratio = row.cells[engine].ratio;
    if (!ratio) continue;
    const double value = ratio->median;
    out.least = out.n_rows == 0 ? value : std::min(out.least, value);
    out.most = std::max(out.most, value);
    out.mean += (value - out.mean) / ++out.n_rows;
  }
  return out;
}

std::string summary_text(const SweepRecord& record) {
  std::string text;
  const auto prefill = summarise(record, SweepKind::kPrefill),
             decode = summarise(record, SweepKind::kDecode);
  if (!prefill.empty()) text += table(record, SweepKind::kPrefill, prefill);
  if (!decode.empty()) text += table(record, SweepKind::kDecode, decode);
  if (!text.empty()) {
    text += fmt::format("tokens/s, median (least .. most) of {} round{}\n", record.options.rounds,
                        record.options.rounds == 1 ? "" : "s");
  }
  return text + means_text(record, prefill, decode);
}

std::string sweep_title(const SweepRecord& record) {
  if (!record.options.title.empty()) return record.options.title;
  if (record.hellos.empty() || record.hellos.front().empty()) return "";
  const auto hello = parse_hello(record.hellos.front());
  return hello ? hello->model : "";
}

}  // namespace lily
