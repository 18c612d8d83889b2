// score: what callers want of many rows of logits without drawing from them.
#include <cmath>
#include <limits>
#include <span>

#include "backend/reference/arithmetic.h"
#include "backend/reference/reference_backend.h"
#include "backend/reference/vocabulary.h"

namespace lily::reference {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// sum of p (log p - log q) in nats; an entry with p = 0 adds nothing.
double divergence(const float* log_p, std::span<const float> logits, double log_total) {
  double sum = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double lp = log_p[i], p = std::exp(lp);
    if (p > 0.0) sum += p * (lp - (static_cast<double>(logits[i]) - log_total));
  }
  return sum;
}

// A row with a NaN or an infinity has no distribution: its results are NaN and its ids -1.
void write_not_finite(const ScoreArgs& args, std::int64_t row) {
  if (args.targets != nullptr) args.target_log_prob[row] = kNan;
  if (args.reference_log_probs != nullptr) args.kl[row] = kNan;
  for (int i = 0; i < args.n_top; ++i) {
    args.top_ids[row * args.n_top + i] = -1;
    args.top_log_probs[row * args.n_top + i] = kNan;
  }
}

void score_row(const ScoreArgs& args, std::int64_t row, std::span<const float> logits) {
  const double total = log_sum(logits);
  const auto log_prob = [&](std::int32_t id) {
    return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(id)]) - total);
  };
  if (args.targets != nullptr) {
    const std::int32_t target = args.targets[row];
    args.target_log_prob[row] = target < 0 ? 0.0f : log_prob(target);
  }
  std::int64_t to = row * args.n_top;
  for (const auto id : top_ids(logits, args.n_top)) {
    args.top_ids[to] = id;
    args.top_log_probs[to++] = log_prob(id);
  }
  if (args.reference_log_probs != nullptr) {
    const float* log_p = args.reference_log_probs + row * args.vocab_used;
    args.kl[row] = static_cast<float>(divergence(log_p, logits, total));
  }
}

}  // namespace

void ReferenceBackend::score(const ScoreArgs& args) {
  const int n = head_block_rows(*args.control, args.first);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t row = args.first + i;
    const std::span logits(args.logits + i * args.vocab_rows,
                           static_cast<std::size_t>(args.vocab_used));
    const bool finite = all_finite(logits);
    args.not_finite[row] = finite ? 0 : 1;
    if (finite) {
      score_row(args, row, logits);
    } else {
      write_not_finite(args, row);
    }
  }
}

}  // namespace lily::reference
