// Numbers over given texts: teacher-forced perplexity, KL divergence, top-1 agreement and greedy continuations against what another
// implementation recorded, and the same against another engine, with the residual stream layer by layer.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "engine/comparison.h"
#include "engine/engine.h"
#include "engine/golden.h"

namespace lily {

struct EvalReport {
  int positions = 0;                   // Rows compared.
  int left_out = 0;                    // Rows where the reference's own margin is under `tie_margin`: top-1 says nothing.
  std::optional<double> top1;          // Share of the rest that agree on the most likely token.
  std::optional<double> top1_all;      // Share of all rows, ties as they fall.
  std::optional<double> top1_replies;  // The same over rows at or after prompt_length.
  std::optional<double> kl_mean, kl_max;              // KL(reference || ours), nats
  std::optional<double> log_prob_max_difference;      // Largest |difference| of a recorded log-probability.
  std::optional<double> perplexity, perplexity_reference;
  std::optional<int> greedy_equal, greedy_total;
  std::vector<std::string> greedy_different;          // "story: expected ..., got ..."
  std::optional<ComparisonReport> against;            // The other engine's numbers take the reference's place.
};

struct EvalOptions {
  Engine* against = nullptr;  // Another engine on the same checkpoint, or none.
  double tie_margin = 1e-3;
  std::function<void(int done, int total)> progress = {};
  const std::atomic<bool>* cancel = nullptr;  // kCancelled within a step.
};

// Without records: the first n_positions rows of a text, each with the token that follows it; 0: all of it. Its spellings of added tokens are
// ordinary text.
Result<GoldenRow> read_text_row(const Path& text, const Tokenizer& tokenizer, int n_positions);

Result<EvalReport> evaluate(Engine& engine, std::span<const GoldenRow> rows, const EvalOptions& options);

}  // namespace lily
