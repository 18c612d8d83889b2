// Teacher-forced scores pass by pass, for who wants more of a pass than its scores: whole
// distributions and the residual stream.
#pragma once

#include <algorithm>
#include <vector>

#include "engine/engine.h"

namespace lily {

// The scored rows of one pass.
struct ScoredPass {
  int first = 0;  // Position of the first.
  std::vector<ScoredRow> rows = {};
  // Of a scorer that looks inside, else empty.
  std::vector<float> log_probs = {};             // [rows, vocab_used]
  std::vector<std::vector<float>> streams = {};  // [1 + layers][rows, D]: the residual stream after
                                                 // the embedding and after each layer.
};

class Scorer {
 public:
  // Uses the engine's session: what it kept is lost, and nothing else runs on the engine meanwhile.
  // What `request` names outlives the scorer.
  static Result<Scorer> begin(Engine& engine, const ScoreRequest& request,
                              bool looks_inside = false);

  // Rows of a pass at most: the engine's, or fewer where given distributions are compared. Two
  // scorers of one text that are to stop at the same places get the smaller of theirs.
  int pass_rows() const { return pass_rows_; }
  void limit_pass_rows(int n) { pass_rows_ = std::min(pass_rows_, n); }

  bool done() const { return begin_ == end_; }
  // kCancelled where the request was stopped.
  Result<ScoredPass> next();

 private:
  Scorer(Engine::Impl& engine, const ScoreRequest& request, bool looks_inside);
  std::span<const float> given_rows(int first, int n_rows) const;

  Engine::Impl* engine_;
  ScoreRequest request_;
  bool looks_inside_;
  int pass_rows_ = 0, begin_ = 0, end_ = 0;
};

}  // namespace lily
