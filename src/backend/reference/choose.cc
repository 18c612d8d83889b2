// choose: one token a row from its logits, in the order of docs/SAMPLING.md.
#include <algorithm>
#include <cmath>
#include <span>

#include "backend/reference/arithmetic.h"
#include "backend/reference/reference_backend.h"
#include "backend/reference/vocabulary.h"
#include "base/random.h"

namespace lily::reference {
namespace {

struct Candidate {
  std::int32_t id;
  float logit;    // After bias and penalties.
  double weight;  // exp((logit - largest) / temperature): a probability but for its sum.
};

bool is_allowed(const SamplingControl& control, std::size_t id) {
  return control.allowed == nullptr || (control.allowed[id / 32] >> (id % 32) & 1u) != 0;
}

// Biases of ids outside the vocabulary fall away: those tokens are never chosen.
void add_biases(const SamplingControl& control, std::vector<float>& logits) {
  for (int i = 0; i < control.n_bias; ++i) {
    const auto id = static_cast<std::size_t>(control.bias_ids[i]);
    if (control.bias_ids[i] >= 0 && id < logits.size()) logits[id] += control.bias_values[i];
  }
}

// f32, each operation rounded, so that every backend sees the same ties.
void apply_penalties(const SamplingControl& control, std::vector<float>& logits) {
  for (std::size_t id = 0; id < logits.size(); ++id) {
    float& logit = logits[id];
    const std::int32_t count = control.generated[id];
    if (control.repetition_penalty != 1.0f && (count > 0 || control.in_prompt[id] != 0)) {
      logit =
          logit > 0.0f ? logit / control.repetition_penalty : logit * control.repetition_penalty;
    }
    if (count > 0) {
      logit -= control.frequency_penalty * static_cast<float>(count);
      logit -= control.presence_penalty;
    }
  }
}

// The tokens that may be chosen, largest first, ties by lower id.
std::vector<Candidate> candidates(const SamplingControl& control, std::span<const float> row) {
  std::vector<float> logits(row.begin(), row.end());
  add_biases(control, logits);
  apply_penalties(control, logits);
  std::vector<Candidate> kept;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (is_allowed(control, id) && std::isfinite(logits[id])) {
      kept.push_back({static_cast<std::int32_t>(id), logits[id], 0.0});
    }
  }
  std::stable_sort(kept.begin(), kept.end(),
                   [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
  return kept;
}

double total(const std::vector<Candidate>& kept) {
  double sum = 0.0;
  for (const auto& c : kept) sum += c.weight;
  return sum;
}

// Each cut keeps the front of the list, at least its first token.
void cut_top_k(const SamplingControl& control, std::vector<Candidate>& kept) {
  if (control.top_k > 0 && kept.size() > static_cast<std::size_t>(control.top_k)) {
    kept.resize(static_cast<std::size_t>(control.top_k));
  }
}

void cut_top_p(const SamplingControl& control, std::vector<Candidate>& kept) {
  if (control.top_p >= 1.0f) return;
  const double wanted = static_cast<double>(control.top_p) * total(kept);
  double mass = 0.0;
  std::size_t n = 0;
  do {
    mass += kept[n++].weight;
  } while (n < kept.size() && mass < wanted);
  kept.resize(n);
}

void cut_min_p(const SamplingControl& control, std::vector<Candidate>& kept) {
  const double least = static_cast<double>(control.min_p) * kept.front().weight;
  const auto end =
      std::find_if(kept.begin() + 1, kept.end(), [&](const auto& c) { return c.weight < least; });
  kept.erase(end, kept.end());
}

std::int32_t draw(const SamplingControl& control, std::vector<Candidate>& kept) {
  const double largest = kept.front().logit;
  for (auto& c : kept)
    c.weight = std::exp((c.logit - largest) / static_cast<double>(control.temperature));
  cut_top_k(control, kept);
  cut_top_p(control, kept);
  cut_min_p(control, kept);
  const double point = static_cast<double>(uniform_draw(control.seed, control.draw)) * total(kept);
  double mass = 0.0;
  for (const auto& c : kept) {
    mass += c.weight;
    if (mass > point) return c.id;
  }
  return kept.back().id;
}

// -1 where mask and bias leave nothing to choose.
std::int32_t choose_token(const SamplingControl& control, std::span<const float> logits) {
  auto kept = candidates(control, logits);
  if (kept.empty()) return -1;
  return control.temperature > 0.0f ? draw(control, kept) : kept.front().id;
}

// Log-probabilities are the model's own, so they come from the logits as they are.
void report(const SamplingControl& control, std::span<const float> logits, ChosenToken& chosen) {
  const double log_total = log_sum(logits);
  const auto log_prob = [&](std::int32_t id) {
    return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(id)]) -
                              log_total);
  };
  if (chosen.token >= 0) chosen.log_prob = log_prob(chosen.token);
  for (const auto id : top_ids(logits, control.n_top)) {
    chosen.top_ids[chosen.n_top] = id;
    chosen.top_log_probs[chosen.n_top++] = log_prob(id);
  }
}

ChosenToken choose_row(SamplingControl& control, std::span<const float> logits) {
  ChosenToken chosen{};
  chosen.token = -1;
  chosen.not_finite = all_finite(logits) ? 0 : 1;
  if (chosen.not_finite != 0) return chosen;
  chosen.token = choose_token(control, logits);
  if (chosen.token >= 0) ++control.generated[chosen.token];
  report(control, logits, chosen);
  return chosen;
}

}  // namespace

void ReferenceBackend::choose(const ChooseArgs& args) {
  const int n = head_block_rows(*args.control, args.first);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t row = args.first + i;
    const std::span logits(args.logits + i * args.vocab_rows,
                           static_cast<std::size_t>(args.vocab_used));
    args.chosen[row] = choose_row(*args.controls[row], logits);
    // A row without a token gives the next pass token 0: that pass may be under way before the host
    // has seen the -1.
    if (args.next_tokens != nullptr) args.next_tokens[row] = std::max(args.chosen[row].token, 0);
  }
}

}  // namespace lily::reference
