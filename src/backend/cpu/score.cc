// score: log-probabilities, largest entries and divergence of rows of logits. A task is a chunk of
// a row; then one row each.
#include <algorithm>
#include <limits>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/vocabulary.h"

namespace lily::cpu {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kScoreRankStep = 4.0f;

// A row with a NaN or an infinity has no distribution: its results are NaN and its ids -1.
void write_not_finite(const ScoreArgs& args, std::int64_t row) {
  if (args.targets != nullptr) args.target_log_prob[row] = kNan;
  if (args.reference_log_probs != nullptr) args.kl[row] = kNan;
  std::fill_n(args.top_ids + row * args.n_top, args.n_top, -1);
  std::fill_n(args.top_log_probs + row * args.n_top, args.n_top, kNan);
}

// Sum of p (log p - log q) over a chunk in f64: the difference of two close numbers. An entry with
// p = 0 adds nothing.
double divergence(const Kernels& kernels, std::span<const float> logits, const float* log_p,
                  double log_sum) {
  float p[kVocabularyChunk];
  kernels.math.exp(log_p, p, static_cast<std::int64_t>(logits.size()));
  double sum = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!(p[i] > 0.0f)) continue;
    sum += static_cast<double>(p[i]) *
           (static_cast<double>(log_p[i]) - (static_cast<double>(logits[i]) - log_sum));
  }
  return sum;
}

void score_row(const ScoreArgs& args, std::int64_t row, std::span<const float> logits,
               const RowSummary& all, Ranking ranking) {
  const auto log_prob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - all.log_sum);
  };
  if (args.targets != nullptr) {
    const std::int32_t target = args.targets[row];
    args.target_log_prob[row] =
        target < 0 ? 0.0f : log_prob(logits[static_cast<std::size_t>(target)]);
  }
  for (std::int64_t i = 0; i < args.n_top && ranking.has(i); ++i) {
    args.top_ids[row * args.n_top + i] = ranking.id(i);
    args.top_log_probs[row * args.n_top + i] = log_prob(ranking.logit(i));
  }
}

}  // namespace

void CpuBackend::score(const ScoreArgs& args) {
  const LogitRows rows =
      logit_rows(*args.control, args.logits, args.first, args.vocab_rows, args.vocab_used);
  gather_stats(rows);
  pool_.parallel_for(rows.n, [&](std::int64_t i, int thread) {
    const RowSummary all = summary_of(rows, i);
    const std::int64_t row = args.first + i;
    args.not_finite[row] = all.finite ? 0 : 1;
    if (!all.finite) return write_not_finite(args, row);
    score_row(args, row, rows.row(i), all,
              Ranking(kernels_, rows.row(i), all.largest, kScoreRankStep, keys_of(thread)));
  });
  if (args.reference_log_probs == nullptr) return;
  const std::int64_t chunks = n_chunks(args.vocab_used);
  auto* const parts = scratch_.divergence.as<double>();
  pool_.parallel_for(rows.n * chunks, [&](std::int64_t task) {
    const std::int64_t i = task / chunks, chunk = task % chunks, row = args.first + i;
    if (args.not_finite[row] != 0) return;
    const float* const log_p =
        args.reference_log_probs + row * args.vocab_used + chunk * kVocabularyChunk;
    parts[task] =
        divergence(kernels_, chunk_of(rows.row(i), chunk), log_p, summary_of(rows, i).log_sum);
  });
  for (std::int64_t i = 0; i < rows.n; ++i) {
    double sum = 0.0;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += parts[i * chunks + chunk];
    if (args.not_finite[args.first + i] == 0) args.kl[args.first + i] = static_cast<float>(sum);
  }
}

}  // namespace lily::cpu
