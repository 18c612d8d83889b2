// Head rows, targets, and what the device says of them.
#include "engine/score_pass.h"

#include <numeric>

namespace lily {
namespace {

Result<std::vector<ScoredRow>> read_rows(Engine::Impl& engine, const ScorePass& pass, bool with_kl) {
  const int n = static_cast<int>(pass.next.size());
  LILY_TRY(const ScoreRows rows, engine.model.buffers.read_score(*engine.backend, n, pass.n_top));
  std::vector<ScoredRow> out;
  for (int i = 0; i < n; ++i) {
    const auto row = static_cast<std::size_t>(i);
    if (rows.not_finite[row]) {
      return Error{ErrorCode::kNotFinite, "position " + std::to_string(pass.part.position + pass.first_row + i) + ": a logit is not finite"};
    }
    const auto n_top = static_cast<std::ptrdiff_t>(pass.n_top), at = i * n_top;
    out.push_back({.has_next = pass.next[row] >= 0,
                   .next_log_prob = rows.target_log_prob[row],
                   .top_ids = {rows.top_ids.begin() + at, rows.top_ids.begin() + at + n_top},
                   .top_log_probs = {rows.top_log_probs.begin() + at, rows.top_log_probs.begin() + at + n_top},
                   .kl = with_kl ? rows.kl[row] : 0.0f});
  }
  return out;
}

}  // namespace

Result<std::vector<ScoredRow>> run_score_pass(Engine::Impl& engine, const ScorePass& pass) {
  PassBuffers& buffers = engine.model.buffers;
  std::vector<std::int32_t> head_rows(pass.next.size());
  std::iota(head_rows.begin(), head_rows.end(), pass.first_row);
  HeadUse use{.kind = head_rows.empty() ? HeadUse::Kind::kNone : HeadUse::Kind::kScore, .n_top = pass.n_top};
  buffers.write_targets(*engine.backend, pass.next);
  if (!pass.reference_log_probs.empty()) {
    LILY_TRY(use.reference_log_probs, buffers.write_reference_log_probs(*engine.backend, pass.reference_log_probs));
  }
  const PassRequest request{.parts = {&pass.part, 1}, .head = use, .head_rows = head_rows, .cancel = pass.cancel};
  if (pass.watcher && !head_rows.empty()) {
    LILY_RETURN_IF_ERROR(run_pass(*engine.backend, engine.model, request, *pass.watcher));
  } else {
    LILY_RETURN_IF_ERROR(run_pass(*engine.backend, engine.model, request));
  }
  return read_rows(engine, pass, use.reference_log_probs != nullptr);
}

}  // namespace lily
