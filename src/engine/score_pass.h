// A pass whose rows are held against the tokens that really follow them.
#pragma once

#include <span>
#include <vector>

#include "engine/impl.h"

namespace lily {

struct ScorePass {
  PassPart part;
  int first_row = 0;              // Rows before it are computed and not scored.
  std::span<const TokenId> next;  // What follows each scored row; -1: nothing does.
  int n_top = 0;
  std::span<const float> reference_log_probs = {};  // Empty, or [scored rows, vocab_used].
  const std::atomic<bool>* cancel = nullptr;
  PassWatcher* watcher = nullptr;  // Looks inside, where rows are scored.
};

Result<std::vector<ScoredRow>> run_score_pass(Engine::Impl& engine, const ScorePass& pass);

}  // namespace lily
