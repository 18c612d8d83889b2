// Numbers against recorded answers of another implementation: teacher-forced perplexity, KL divergence, top-1 agreement, and
// greedy continuations.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "engine/engine.h"

namespace lily {

struct EvalReport {
  int positions = 0;                   // Rows compared.
  int left_out = 0;                    // Rows where the reference's own margin is under `tie_margin`: top-1 says nothing.
  std::optional<double> top1;          // Share of the rest that agree on the most likely token.
  std::optional<double> top1_replies;  // The same over rows at or after prompt_length.
  std::optional<double> kl_mean, kl_max;              // KL(reference || ours), nats
  std::optional<double> log_prob_max_difference;      // Largest |difference| of a recorded log-probability.
  std::optional<double> perplexity, perplexity_reference;
  std::optional<int> greedy_equal, greedy_total;
  std::vector<std::string> greedy_different;          // "story: expected ..., got ..."
};

struct EvalOptions {
  double tie_margin = 1e-3;
  std::function<void(int done, int total)> progress = {};
  const std::atomic<bool>* cancel = nullptr;  // kCancelled within a step.
};

// `golden`: JSON written by tools/pocket/oracle.py `golden`, or safetensors written by its `full`.
Result<EvalReport> evaluate(Engine& engine, const Path& golden, const EvalOptions& options);

}  // namespace lily
