// Sums over rows, in fp64.
#include "engine/comparison.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"

namespace lily {
namespace {

double relative_error(std::span<const float> ours, std::span<const float> theirs) {
  double off = 0, norm = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double a = ours[i], b = theirs[i];
    off += (a - b) * (a - b), norm += b * b;
  }
  return off == 0 ? 0 : std::sqrt(off / norm);
}

// KL(theirs || ours). What rounding leaves below zero is zero.
double divergence(std::span<const float> ours, std::span<const float> theirs) {
  double sum = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double theirs_log = theirs[i];
    sum += std::exp(theirs_log) * (theirs_log - ours[i]);
  }
  return std::max(sum, 0.0);
}

std::string layer_name(std::size_t index) {
  return index == 0 ? "the embedding" : "layer " + std::to_string(index - 1);
}

}  // namespace

Result<void> Comparison::add(const ScoredPass& ours, const ScoredPass& theirs, int hidden) {
  LILY_CHECK(ours.first == theirs.first && ours.rows.size() == theirs.rows.size());
  if (ours.rows.empty()) return {};
  LILY_RETURN_IF_ERROR(add_streams(ours, theirs, static_cast<std::size_t>(hidden)));
  LILY_CHECK(ours.log_probs.size() == theirs.log_probs.size());
  const std::size_t vocab = ours.log_probs.size() / ours.rows.size();
  for (std::size_t i = 0; i < ours.rows.size(); ++i) {
    const auto row_of = [&](const ScoredPass& pass) {
      return std::span(pass.log_probs).subspan(i * vocab, vocab);
    };
    add_row(ours.rows[i], theirs.rows[i], divergence(row_of(ours), row_of(theirs)));
  }
  return {};
}

Result<void> Comparison::add_streams(const ScoredPass& ours, const ScoredPass& theirs,
                                     std::size_t hidden) {
  LILY_CHECK(!ours.streams.empty() && ours.streams.size() == theirs.streams.size());
  drift_.resize(ours.streams.size());
  for (std::size_t layer = 0; layer < drift_.size(); ++layer) {
    for (std::size_t i = 0; i < ours.rows.size(); ++i) {
      const auto row_of = [&](const ScoredPass& pass) {
        return std::span(pass.streams[layer]).subspan(i * hidden, hidden);
      };
      const double error = relative_error(row_of(ours), row_of(theirs));
      if (!std::isfinite(error)) {
        return Error{ErrorCode::kNotFinite,
                     "position " + std::to_string(static_cast<std::size_t>(ours.first) + i) +
                         ", after " + layer_name(layer) +
                         ": the residual streams cannot be compared"};
      }
      drift_[layer].mean += error;
      drift_[layer].largest = std::max(drift_[layer].largest, error);
    }
  }
  return {};
}

void Comparison::add_row(const ScoredRow& ours, const ScoredRow& theirs, double kl) {
  ++positions_;
  agree_ += ours.top_ids[0] == theirs.top_ids[0];
  kl_ += kl;
  kl_max_ = std::max(kl_max_, kl);
  if (!ours.has_next) return;
  ++predicted_;
  log_prob_ += ours.next_log_prob, log_prob_theirs_ += theirs.next_log_prob;
}

ComparisonReport Comparison::report() const {
  LILY_CHECK(positions_ > 0);
  ComparisonReport out{.positions = positions_,
                       .top1 = static_cast<double>(agree_) / positions_,
                       .kl_mean = kl_ / positions_,
                       .kl_max = kl_max_,
                       .perplexity = {},
                       .perplexity_theirs = {},
                       .drift = drift_};
  for (Drift& layer : out.drift) layer.mean /= positions_;
  if (predicted_ > 0) {
    out.perplexity = std::exp(-log_prob_ / predicted_);
    out.perplexity_theirs = std::exp(-log_prob_theirs_ / predicted_);
  }
  return out;
}

double perplexity_delta_percent(double perplexity, double reference) {
  return 100.0 * (perplexity / reference - 1.0);
}

}  // namespace lily
