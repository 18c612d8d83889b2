// Teacher forcing over recorded rows, greedy continuations, and the figures that follow from them.
#include "engine/eval.h"

#include <algorithm>
#include <cmath>

namespace lily {
namespace {

// Running sums over all recorded texts.
struct Sums {
  int positions = 0, recorded = 0, agree_all = 0;
  int left_out = 0, compared = 0, agree = 0;
  int replies = 0, replies_agree = 0;
  double kl = 0, kl_max = 0, log_prob_difference = 0;
  bool has_kl = false, has_replies = false;
  int predicted = 0, predicted_recorded = 0;
  double ours = 0, theirs = 0;  // Sums of log-probabilities of the text itself.
};

void add_top1(Sums& sums, const GoldenRow& row, int at, const ScoredRow& ours, double tie_margin) {
  const auto& theirs = row.tops[static_cast<std::size_t>(at - row.first)];
  const bool same = ours.top_ids[0] == theirs.ids[0];
  ++sums.recorded, sums.agree_all += same;
  if (theirs.log_probs[0] - theirs.log_probs[1] <= tie_margin) {
    ++sums.left_out;
    return;
  }
  ++sums.compared, sums.agree += same;
  if (row.prompt_length >= 0 && at >= row.prompt_length) ++sums.replies, sums.replies_agree += same;
}

void add_log_probs(Sums& sums, const GoldenRow& row, int at, const ScoredRow& ours) {
  const auto index = static_cast<std::size_t>(at - row.first);
  if (ours.has_next) sums.ours += ours.next_log_prob, ++sums.predicted;
  if (index < row.next_log_probs.size()) {
    const double theirs = row.next_log_probs[index];
    sums.log_prob_difference = std::max(sums.log_prob_difference, std::fabs(theirs - ours.next_log_prob));
    sums.theirs += theirs, ++sums.predicted_recorded;
  }
  if (row.tops.empty()) return;
  const auto& tops = row.tops[index];
  for (std::size_t i = 0; i < tops.ids.size(); ++i) {
    const auto found = std::find(ours.top_ids.begin(), ours.top_ids.end(), tops.ids[i]);
    if (found == ours.top_ids.end()) continue;
    const double mine = ours.top_log_probs[static_cast<std::size_t>(found - ours.top_ids.begin())];
    sums.log_prob_difference = std::max(sums.log_prob_difference, std::fabs(tops.log_probs[i] - mine));
  }
}

void add_pass(Sums& sums, const GoldenRow& row, const ScoredPass& pass, double tie_margin) {
  for (std::size_t i = 0; i < pass.rows.size(); ++i) {
    const ScoredRow& scored = pass.rows[i];
    const int at = pass.first + static_cast<int>(i);
    ++sums.positions;
    if (!row.tops.empty()) add_top1(sums, row, at, scored, tie_margin);
    add_log_probs(sums, row, at, scored);
    if (row.log_probs.empty()) continue;
    sums.kl += scored.kl;
    sums.kl_max = std::max(sums.kl_max, static_cast<double>(scored.kl));
  }
  sums.has_kl |= !row.log_probs.empty();
  sums.has_replies |= row.prompt_length >= 0;
}

// A text without records ends where nothing follows that could be predicted.
ScoreRequest score_request(const GoldenRow& row, const EvalOptions& options) {
  const int n_ids = static_cast<int>(row.ids.size());
  return {.ids = row.ids,
          .first = row.first,
          .end = row.tops.empty() ? n_ids - 1 : n_ids,
          .n_top = row.tops.empty() ? 1 : static_cast<int>(row.tops.front().ids.size()),
          .reference_log_probs = row.log_probs,
          .cancel = options.cancel};
}

Result<void> add_row(Engine& engine, const GoldenRow& row, const EvalOptions& options, Sums& sums) {
  LILY_TRY(auto scorer, Scorer::begin(engine, score_request(row, options)));
  while (!scorer.done()) {
    LILY_TRY(const ScoredPass pass, scorer.next());
    add_pass(sums, row, pass, options.tie_margin);
  }
  return {};
}

// Both engines, pass by pass in turn: no more than a pass of each is in memory.
Result<void> add_row_of_both(Engine& engine, const GoldenRow& row, const EvalOptions& options, Sums& sums, Comparison& comparison) {
  ScoreRequest request = score_request(row, options);
  LILY_TRY(auto ours, Scorer::begin(engine, request, true));
  request.reference_log_probs = {};
  LILY_TRY(auto theirs, Scorer::begin(*options.against, request, true));
  ours.limit_pass_rows(theirs.pass_rows());
  theirs.limit_pass_rows(ours.pass_rows());
  while (!ours.done()) {
    LILY_TRY(const ScoredPass pass, ours.next());
    LILY_TRY(const ScoredPass other, theirs.next());
    add_pass(sums, row, pass, options.tie_margin);
    LILY_RETURN_IF_ERROR(comparison.add(pass, other, engine.spec().hidden));
  }
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
  report.top1_all = share(sums.agree_all, sums.recorded);
  if (sums.has_replies) report.top1_replies = share(sums.replies_agree, sums.replies);
  if (sums.has_kl) report.kl_mean = sums.kl / sums.positions, report.kl_max = sums.kl_max;
  if (sums.predicted > 0) report.perplexity = std::exp(-sums.ours / sums.predicted);
  if (sums.predicted_recorded == 0) return;
  report.log_prob_max_difference = sums.log_prob_difference;
  report.perplexity_reference = std::exp(-sums.theirs / sums.predicted_recorded);
}

constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20;

}  // namespace

Result<GoldenRow> read_text_row(const Path& text, const Tokenizer& tokenizer, int n_positions) {
  LILY_TRY(const auto bytes, read_file(text, kMaxTextBytes));
  GoldenRow row{.name = text.string(), .ids = tokenizer.encode_plain(bytes)};
  if (row.ids.size() < 2) {
    return Error{ErrorCode::kInvalidArgument, text.string() + ": " + std::to_string(row.ids.size()) + " tokens, expected 2 or more"};
  }
  const std::size_t wanted = static_cast<std::size_t>(n_positions) + 1;
  if (n_positions > 0 && row.ids.size() > wanted) row.ids.resize(wanted);
  return row;
}

Result<EvalReport> evaluate(Engine& engine, std::span<const GoldenRow> rows, const EvalOptions& options) {
  EvalReport report;
  Sums sums;
  Comparison comparison;
  const int total = static_cast<int>(rows.size());
  for (int i = 0; i < total; ++i) {
    const GoldenRow& row = rows[static_cast<std::size_t>(i)];
    if (options.against) {
      LILY_RETURN_IF_ERROR(add_row_of_both(engine, row, options, sums, comparison));
    } else {
      LILY_RETURN_IF_ERROR(add_row(engine, row, options, sums));
    }
    if (!row.greedy.empty()) LILY_RETURN_IF_ERROR(add_greedy(engine, row, options, report));
    if (options.progress) options.progress(i + 1, total);
  }
  fill(report, sums);
  if (options.against) report.against = comparison.report();
  return report;
}

}  // namespace lily
