// Passes over a given text, their scores read back, and what a pass leaves between its layers.
#include "engine/scorer.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/size.h"
#include "engine/impl.h"
#include "engine/score_pass.h"

namespace lily {
namespace {

Result<void> check_score(const Engine::Impl& engine, const ScoreRequest& request) {
  const auto n = request.ids.size();
  const int vocab_used = engine.model.vocab_used;
  if (n == 0) return Error{ErrorCode::kInvalidArgument, "score: no tokens"};
  if (n > size(engine.context_tokens())) {
    return Error{ErrorCode::kTooLarge, "score: " + std::to_string(n) +
                                           " tokens, the context holds " +
                                           std::to_string(engine.context_tokens())};
  }
  for (const TokenId id : request.ids) {
    if (id < 0 || id >= vocab_used) {
      return Error{ErrorCode::kInvalidArgument, "score: token " + std::to_string(id) +
                                                    ", expected 0 .. " +
                                                    std::to_string(vocab_used - 1)};
    }
  }
  const int most = std::min(kMaxTopLogProbs, vocab_used);
  if (request.n_top < 0 || request.n_top > most) {
    return Error{ErrorCode::kInvalidArgument, "score: " + std::to_string(request.n_top) +
                                                  " alternatives a row, expected 0 .. " +
                                                  std::to_string(most)};
  }
  return {};
}

// Natural logarithms of the softmax over the first vocab_used entries, sums in fp64.
void append_log_probs(std::span<const float> logits, std::vector<float>& to) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float v : logits) sum += std::exp(v - largest);
  const double log_sum = largest + std::log(sum);
  for (const float v : logits) to.push_back(static_cast<float>(v - log_sum));
}

// Copies of what a pass computes for rows first_row .. of it.
class Inside final : public PassWatcher {
 public:
  Inside(Engine::Impl& engine, int first_row, int n_rows, int n_head_rows, ScoredPass& to)
      : engine_(engine),
        first_row_(size(first_row)),
        n_rows_(size(n_rows)),
        n_head_rows_(n_head_rows),
        to_(to) {}

  Result<void> after_layer(int) override {
    const auto width = size(engine_.model.weights.spec.hidden);
    std::vector<float> rows(n_rows_ * width);
    LILY_RETURN_IF_ERROR(engine_.model.buffers.read_residual(*engine_.backend, rows));
    rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(first_row_ * width));
    to_.streams.push_back(std::move(rows));
    return {};
  }
  Result<void> after_head(int first) override {
    const auto stride = size(engine_.model.weights.spec.vocab_rows);
    const auto n = size(std::min(kHeadBlockRows, n_head_rows_ - first));
    std::vector<float> logits(n * stride);
    LILY_RETURN_IF_ERROR(engine_.model.buffers.read_logits(*engine_.backend, logits));
    for (std::size_t i = 0; i < n; ++i) {
      append_log_probs(std::span(logits).subspan(i * stride, size(engine_.model.vocab_used)),
                       to_.log_probs);
    }
    return {};
  }

 private:
  Engine::Impl& engine_;
  std::size_t first_row_, n_rows_;
  int n_head_rows_;
  ScoredPass& to_;
};

}  // namespace

Result<Scorer> Scorer::begin(Engine& engine, const ScoreRequest& request, bool looks_inside) {
  LILY_RETURN_IF_ERROR(check_score(*engine.impl_, request));
  engine.session().clear();
  return Scorer(*engine.impl_, request, looks_inside);
}

Scorer::Scorer(Engine::Impl& engine, const ScoreRequest& request, bool looks_inside)
    : engine_(&engine),
      request_(request),
      looks_inside_(looks_inside),
      pass_rows_(engine.model.buffers.max_rows()) {
  const int n = static_cast<int>(request.ids.size());
  end_ = request.end > 0 ? request.end : n;
  LILY_CHECK(request.first >= 0 && request.first < end_ && end_ <= n);
  const auto& given = request.reference_log_probs;
  if (given.empty()) return;
  // Given distributions are compared a head block at a time; without them a whole chunk is scored
  // in one pass.
  LILY_CHECK(given.size() == size(end_ - request.first) * size(engine.model.vocab_used));
  limit_pass_rows(kHeadBlockRows);
}

// The given distributions of rows `first` .., where there are any.
std::span<const float> Scorer::given_rows(int first, int n_rows) const {
  if (request_.reference_log_probs.empty()) return {};
  const auto vocab = size(engine_->model.vocab_used);
  return request_.reference_log_probs.subspan(size(first - request_.first) * vocab,
                                              size(n_rows) * vocab);
}

Result<ScoredPass> Scorer::next() {
  LILY_CHECK(!done());
  if (request_.cancel && request_.cancel->load(std::memory_order_relaxed)) {
    return Error{ErrorCode::kCancelled, "scoring was stopped on request"};
  }
  const int begin = begin_;
  begin_ = std::min(begin + pass_rows_, end_);
  const int first = std::min(std::max(begin, request_.first), begin_), n_rows = begin_ - first;
  ScoredPass out{.first = first};
  std::vector<TokenId> next;
  for (int i = first + 1; i <= begin_; ++i) {
    next.push_back(size(i) < request_.ids.size() ? request_.ids[size(i)] : -1);
  }
  Inside inside(*engine_, first - begin, begin_ - begin, n_rows, out);
  const auto tokens = request_.ids.subspan(size(begin), size(begin_ - begin));
  LILY_TRY(out.rows,
           run_score_pass(*engine_, {.part = {.tokens = tokens, .position = begin},
                                     .first_row = first - begin,
                                     .next = next,
                                     .n_top = request_.n_top,
                                     .reference_log_probs = n_rows > 0 ? given_rows(first, n_rows)
                                                                       : std::span<const float>(),
                                     .cancel = request_.cancel,
                                     .watcher = looks_inside_ ? &inside : nullptr}));
  if (done()) engine_->session->clear();
  return out;
}

Result<std::vector<ScoredRow>> Engine::score(const ScoreRequest& request) {
  LILY_TRY(auto scorer, Scorer::begin(*this, request));
  std::vector<ScoredRow> out;
  while (!scorer.done()) {
    LILY_TRY(auto pass, scorer.next());
    std::move(pass.rows.begin(), pass.rows.end(), std::back_inserter(out));
  }
  return out;
}

}  // namespace lily
