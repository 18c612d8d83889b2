// One engine's numbers against another's over the same texts: distributions, and the residual
// stream layer by layer.
#pragma once

#include <optional>
#include <vector>

#include "engine/scorer.h"

namespace lily {

// |ours - theirs| / |theirs| of rows of the residual stream.
struct Drift {
  double mean = 0, largest = 0;
};

struct ComparisonReport {
  int positions = 0;
  double top1 = 0;                 // Share of all positions that agree on the most likely token.
  double kl_mean = 0, kl_max = 0;  // KL(theirs || ours), nats
  std::optional<double> perplexity, perplexity_theirs;  // Of the tokens that the texts go on with.
  std::vector<Drift> drift;  // After the embedding, then after each layer.
};

class Comparison {
 public:
  // The same rows, looked inside by both. kNotFinite names a position and a layer where either is
  // not.
  Result<void> add(const ScoredPass& ours, const ScoredPass& theirs, int hidden);
  // Of at least one row.
  ComparisonReport report() const;

 private:
  Result<void> add_streams(const ScoredPass& ours, const ScoredPass& theirs, std::size_t hidden);
  void add_row(const ScoredRow& ours, const ScoredRow& theirs, double kl);

  int positions_ = 0, agree_ = 0, predicted_ = 0;
  double kl_ = 0, kl_max_ = 0, log_prob_ = 0, log_prob_theirs_ = 0;
  std::vector<Drift> drift_;  // Sums in place of means.
};

// By how many per cent a perplexity is above another.
double perplexity_delta_percent(double perplexity, double reference);

}  // namespace lily
