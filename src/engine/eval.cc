// Teacher forcing over recorded rows, greedy continuations, and the figures that follow from them.
#include "engine/eval.h"

#include <algorithm>
#include <cmath>

#include "engine/golden.h"

namespace lily {
namespace {

// Running sums over all recorded texts.
struct Sums {
  int positions = 0, left_out = 0, compared = 0, agree = 0;
  int replies = 0, replies_agree = 0;
  double kl = 0, kl_max = 0, log_prob_difference = 0;
  bool has_kl = false, has_log_probs = false, has_replies = false;
  int predicted = 0;
  double ours = 0, theirs = 0;  // Sums of log-probabilities of the text itself.
};

void add_top1(Sums& sums, const GoldenRow& row, int at, const ScoredRow& ours, double tie_margin) {
  const auto& theirs = row.tops[static_cast<std::size_t>(at - row.first)];
  ++sums.positions;
  if (theirs.log_probs[0] - theirs.log_probs[1] <= tie_margin) {
    ++sums.left_out;
    return;
  }
  const bool same = ours.top_ids[0] == theirs.ids[0];
  ++sums.compared, sums.agree += same;
  if (row.prompt_length >= 0 && at >= row.prompt_length) ++sums.replies, sums.replies_agree += same;
}

void add_log_probs(Sums& sums, const GoldenRow& row, int at, const ScoredRow& ours) {
  const auto index = static_cast<std::size_t>(at - row.first);
  if (index < row.next_log_probs.size()) {
    const double theirs = row.next_log_probs[index];
    sums.log_prob_difference = std::max(sums.log_prob_difference, std::fabs(theirs - ours.next_log_prob));
    sums.ours += ours.next_log_prob, sums.theirs += theirs, ++sums.predicted;
  }
  const auto& tops = row.tops[index];
  for (std::size_t i = 0; i < tops.ids.size(); ++i) {
    const auto found = std::find(ours.top_ids.begin(), ours.top_ids.end(), tops.ids[i]);
    if (found == ours.top_ids.end()) continue;
    const double mine = ours.top_log_probs[static_cast<std::size_t>(found - ours.top_ids.begin())];
    sums.log_prob_difference = std::max(sums.log_prob_difference, std::fabs(tops.log_probs[i] - mine));
  }
}

Result<void> add_row(Engine& engine, const GoldenRow& row, const EvalOptions& options, Sums& sums) {
  LILY_TRY(const auto scored, engine.score({.ids = row.ids,
                                            .first = row.first,
                                            .n_top = static_cast<int>(row.tops.front().ids.size()),
                                            .reference_log_probs = row.log_probs,
                                            .cancel = options.cancel}));
  for (std::size_t i = 0; i < scored.size(); ++i) {
    const int at = row.first + static_cast<int>(i);
    add_top1(sums, row, at, scored[i], options.tie_margin);
    add_log_probs(sums, row, at, scored[i]);
    if (row.log_probs.empty()) continue;
    sums.kl += scored[i].kl;
    sums.kl_max = std::max(sums.kl_max, static_cast<double>(scored[i].kl));
  }
  sums.has_kl |= !row.log_probs.empty();
  sums.has_log_probs |= !row.next_log_probs.empty();
  sums.has_replies |= row.prompt_length >= 0;
  return {};
}

// The recorded continuation is at most this long; it includes the end token where the model ended.
constexpr int kGoldenGreedyTokens = 96;

Result<void> add_greedy(Engine& engine, const GoldenRow& row, const EvalOptions& options, EvalReport& report) {
  engine.session().clear();
  SamplingParams greedy;
  greedy.temperature = 0;
  LILY_TRY(auto answer, engine.session().generate(
                            {.prompt = {row.ids.begin(), row.ids.begin() + row.prompt_length},
                             .sampling = greedy,
                             .max_tokens = kGoldenGreedyTokens,
                             .cancel = options.cancel}));
  if (answer.finish == FinishReason::kCancelled) return Error{ErrorCode::kCancelled, "the evaluation was stopped on request"};
  if (answer.end_token >= 0 && answer.tokens.size() < kGoldenGreedyTokens) answer.tokens.push_back(answer.end_token);
  report.greedy_total = report.greedy_total.value_or(0) + 1;
  const bool same = answer.tokens == row.greedy;
  report.greedy_equal = report.greedy_equal.value_or(0) + same;
  if (!same) {
    report.greedy_different.push_back(row.name + ": expected '" + engine.tokenizer().decode(row.greedy) + "', got '" +
                                      engine.tokenizer().decode(answer.tokens) + "'");
  }
  return {};
}

std::optional<double> share(int part, int whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / whole;
}

void fill(EvalReport& report, const Sums& sums) {
  report.positions = sums.positions;
  report.left_out = sums.left_out;
  report.top1 = share(sums.agree, sums.compared);
  if (sums.has_replies) report.top1_replies = share(sums.replies_agree, sums.replies);
  if (sums.has_kl) report.kl_mean = sums.kl / sums.positions, report.kl_max = sums.kl_max;
  if (!sums.has_log_probs) return;
  report.log_prob_max_difference = sums.log_prob_difference;
  report.perplexity = std::exp(-sums.ours / sums.predicted);
  report.perplexity_reference = std::exp(-sums.theirs / sums.predicted);
}

}  // namespace

Result<EvalReport> evaluate(Engine& engine, const Path& golden, const EvalOptions& options) {
  LILY_TRY(const auto rows, read_golden(golden, engine.tokenizer().n_ids()));
  EvalReport report;
  Sums sums;
  const int total = static_cast<int>(rows.size());
  for (int i = 0; i < total; ++i) {
    const GoldenRow& row = rows[static_cast<std::size_t>(i)];
    LILY_RETURN_IF_ERROR(add_row(engine, row, options, sums));
    if (!row.greedy.empty()) LILY_RETURN_IF_ERROR(add_greedy(engine, row, options, report));
    if (options.progress) options.progress(i + 1, total);
  }
  fill(report, sums);
  return report;
}

}  // namespace lily
