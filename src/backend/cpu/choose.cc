// choose: one token a row, in the order of docs/SAMPLING.md. Adjusted logits and weights are f32,
// sums of weights f64: over ranks in their order, over the whole row by chunks. Nothing is sorted
// but the ranks that are looked at.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/vocabulary.h"
#include "base/random.h"

namespace lily::cpu {
namespace {

constexpr float kRankStep =
    8.0f;  // Times the temperature: the first bound keeps weights from e^-8 on.
constexpr std::int64_t kNoCut = std::numeric_limits<std::int64_t>::max();

bool has_penalties(const SamplingControl& c) {
  return c.repetition_penalty != 1.0f || c.frequency_penalty != 0.0f || c.presence_penalty != 0.0f;
}

bool is_allowed(const SamplingControl& control, std::size_t id) {
  return control.allowed == nullptr || (control.allowed[id / 32] >> (id % 32) & 1u) != 0;
}

float penalised(const SamplingControl& control, std::size_t id, float logit) {
  const std::int32_t count = control.generated[id];
  if (control.repetition_penalty != 1.0f && (count > 0 || control.in_prompt[id] != 0)) {
    logit = logit > 0.0f ? logit / control.repetition_penalty : logit * control.repetition_penalty;
  }
  if (count == 0) return logit;
  logit -= control.frequency_penalty * static_cast<float>(count);
  return logit - control.presence_penalty;
}

// Bias, penalties and mask; what may not be chosen becomes -infinity.
void adjust(const SamplingControl& control, std::span<const float> logits, std::span<float> out) {
  std::copy(logits.begin(), logits.end(), out.begin());
  for (std::int32_t i = 0; i < control.n_bias; ++i) {
    const auto id = static_cast<std::size_t>(control.bias_ids[i]);
    if (control.bias_ids[i] >= 0 && id < out.size()) out[id] += control.bias_values[i];
  }
  const bool penalties = has_penalties(control);
  for (std::size_t id = 0; id < out.size(); ++id) {
    const float logit = penalties ? penalised(control, id, out[id]) : out[id];
    out[id] = is_allowed(control, id) && std::isfinite(logit) ? logit : -kInfinity;
  }
}

// The adjusted logits of a row and their largest.
struct Scores {
  std::span<const float> values;
  float largest;
  std::int32_t best;  // -1: none may be chosen
};

Scores make_scores(const Kernels& kernels, const SamplingControl& control,
                   std::span<const float> logits, const RowSummary& all, std::span<float> scratch) {
  if (control.n_bias == 0 && control.allowed == nullptr && !has_penalties(control)) {
    return {logits, all.largest, all.best};
  }
  adjust(control, logits, scratch);
  const float top = kernels.math.largest(scratch.data(), static_cast<std::int64_t>(scratch.size()));
  if (top == -kInfinity) return {scratch, top, -1};
  return {
      scratch, top,
      static_cast<std::int32_t>(std::find(scratch.begin(), scratch.end(), top) - scratch.begin())};
}

// Draws from the front of a ranking. Weights are exp((logit - largest) / temperature).
class Draw {
 public:
  Draw(const Kernels& kernels, const SamplingControl& control, const Scores& scores,
       std::span<std::uint64_t> keys)
      : kernels_(kernels),
        control_(control),
        scores_(scores),
        ranking_(kernels, scores.values, scores.largest, kRankStep * control.temperature, keys) {}

  std::int32_t token() {
    if (control_.top_k > 0) n_kept_ = control_.top_k;
    cut_top_p();
    cut_min_p();
    const double point = static_cast<double>(uniform_draw(control_.seed, control_.draw)) * total();
    double mass = 0.0;
    std::int64_t rank = 0;
    for (; has(rank); ++rank) {
      mass += weight(rank);
      if (mass > point) return ranking_.id(rank);
    }
    return ranking_.id(rank - 1);
  }

 private:
  bool has(std::int64_t rank) { return rank < n_kept_ && ranking_.has(rank); }

  double weight(std::int64_t rank) const {
    const float logit = ranking_.logit(rank);
    float w = 0.0f;
    kernels_.vocabulary.weights(&logit, 1, scores_.largest, control_.temperature, &w);
    return static_cast<double>(w);
  }

  double total() {
    double sum = 0.0;
    if (n_kept_ != kNoCut) {
      for (std::int64_t rank = 0; has(rank); ++rank) sum += weight(rank);
      return sum;
    }
    for (std::int64_t i = 0; i < n_chunks(std::ssize(scores_.values)); ++i) {
      const auto chunk = chunk_of(scores_.values, i);
      sum += static_cast<double>(kernels_.vocabulary.weights(
          chunk.data(), std::ssize(chunk), scores_.largest, control_.temperature, nullptr));
    }
    return sum;
  }

  void cut_top_p() {
    if (control_.top_p >= 1.0f) return;
    const double wanted = static_cast<double>(control_.top_p) * total();
    double mass = weight_of_first();
    std::int64_t n = 1;
    for (; mass < wanted && has(n); ++n) mass += weight(n);
    n_kept_ = n;
  }

  void cut_min_p() {
    if (!(control_.min_p > 0.0f)) return;
    const double least = static_cast<double>(control_.min_p) * weight_of_first();
    std::int64_t n = 1;
    while (has(n) && weight(n) >= least) ++n;
    n_kept_ = n;
  }

  double weight_of_first() { return has(0) ? weight(0) : 0.0; }

  const Kernels& kernels_;
  const SamplingControl& control_;
  const Scores& scores_;
  Ranking ranking_;
  std::int64_t n_kept_ = kNoCut;
};

std::int32_t choose_token(const Kernels& kernels, const SamplingControl& control,
                          const Scores& scores, std::span<std::uint64_t> keys) {
  if (scores.best < 0 || !(control.temperature > 0.0f)) return scores.best;
  return Draw(kernels, control, scores, keys).token();
}

// Log-probabilities are the model's own, so they come from the logits as they are.
void report(const SamplingControl& control, std::span<const float> logits, const RowSummary& all,
            Ranking ranking, ChosenToken& chosen) {
  const auto log_prob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - all.log_sum);
  };
  if (chosen.token >= 0) chosen.log_prob = log_prob(logits[static_cast<std::size_t>(chosen.token)]);
  for (std::int32_t i = 0; i < control.n_top && ranking.has(i); ++i) {
    chosen.top_ids[i] = ranking.id(i);
    chosen.top_log_probs[i] = log_prob(ranking.logit(i));
    chosen.n_top = i + 1;
  }
}

}  // namespace

void CpuBackend::choose(const ChooseArgs& args) {
  const LogitRows rows =
      logit_rows(*args.control, args.logits, args.first, args.vocab_rows, args.vocab_used);
  gather_stats(rows);
  pool_.parallel_for(rows.n, [&](std::int64_t i, int thread) {
    const std::int64_t row = args.first + i;
    const auto logits = rows.row(i);
    const RowSummary all = summary_of(rows, i);
    SamplingControl& control = *args.controls[row];
    ChosenToken chosen{};
    chosen.token = -1;
    chosen.not_finite = all.finite ? 0 : 1;
    if (all.finite) {
      const Scores scores =
          make_scores(kernels_, control, logits, all, scores_of(thread, logits.size()));
      chosen.token = choose_token(kernels_, control, scores, keys_of(thread));
      if (chosen.token >= 0) ++control.generated[chosen.token];
      report(control, logits, all,
             Ranking(kernels_, logits, all.largest, kRankStep, keys_of(thread)), chosen);
    }
    args.chosen[row] = chosen;
    // A row without a token gives the next pass token 0: that pass may be under way before the host
    // has seen the -1.
    if (args.next_tokens != nullptr) args.next_tokens[row] = std::max(chosen.token, 0);
  });
}

}  // namespace lily::cpu
