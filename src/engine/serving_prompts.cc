// Reading prompts: which of them is next, from which kept state it begins, how long a chunk is.
#include <algorithm>

#include "engine/running.h"
#include "engine/score_pass.h"

namespace lily {
namespace {

// While answers run, a chunk is no longer than this, as far as the chunk before can tell, and no shorter than that.
constexpr double kChunkSeconds = 0.25;
constexpr int kLeastChunk = 64;

}  // namespace

Serving::Running* Serving::next_prompt() {
  Running* next = nullptr;
  for (const auto& one : running_) {
    if (!one->reading() || waits_for_another(*one)) continue;
    if (!one->chat && checkpoints_.pages_within_reach() == 0) continue;
    if (!next || one->served < next->served) next = one.get();
  }
  return next;
}

// Whoever shares the beginning of a prompt that is being read, begins when that is kept.
bool Serving::waits_for_another(const Running& one) const {
  if (one.chat || one.scores()) return false;
  const int begins = checkpoints_.deepest(one.prompt());
  for (const auto& other : running_) {
    if (other.get() == &one) return false;
    if (!other->reading()) continue;
    const int common = std::min(common_prefix(other->prompt(), one.prompt()), one.n_prompt() - 1);
    const auto useful = [&](int at) { return at > begins && at <= common; };
    if (std::any_of(other->wanted.begin(), other->wanted.end(), useful)) return true;
  }
  return false;
}

void Serving::read_chunk(Running& one, bool beside_answers) {
  settle();
  const auto started = Clock::now();
  one.served = ++steps_;
  auto done = one.chat ? Result<void>() : begin(one);
  if (done) done = compute_chunk(one, beside_answers);
  if (!done) fail(one, std::move(done).error());
  if (beside_answers) prompts_owe_seconds_ += seconds_since(started);
}

Result<void> Serving::begin(Running& one) {
  const auto from = one.scores() ? Checkpoints::From::kStart : Checkpoints::From::kDeepest;
  LILY_TRY(const auto begun, checkpoints_.begin(one.prompt(), one.sequence, one.live, from));
  one.chat = begun.chat;
  one.reuse = begun.reuse;
  one.computed = one.reserved = begun.reuse.reused;
  std::erase_if(one.wanted, [&](int at) { return at <= one.computed; });
  // What was kept is there at once; clients want to know it before the answer begins.
  if (one.job.request.on_prefill) one.job.request.on_prefill(one.computed, one.n_prompt());
  if (one.scores() && one.n_prompt() == 1) one.job.request.on_prompt_scored({});
  engine_.sampling[static_cast<std::size_t>(one.sequence)].begin(*engine_.backend, one.job.request.sampling, one.prompt());
  return {};
}

Result<void> Serving::compute_chunk(Running& one, bool beside_answers) {
  int end = std::min(one.computed + chunk_rows(beside_answers), one.n_prompt() - 1);
  if (!one.wanted.empty()) end = std::min(end, one.wanted.front());
  one.ends_prompt = !one.scores() && !beside_answers && running_.size() == 1 && one.wanted.empty() && one.n_prompt() - one.computed <= chunk_rows(false);
  if (one.ends_prompt) return {};
  if (end <= one.computed || !make_room(one, end)) return {};
  const auto started = Clock::now();
  const auto tokens = std::span(one.prompt()).subspan(static_cast<std::size_t>(one.computed), static_cast<std::size_t>(end - one.computed));
  const int after = AnswerPasses::other_slot(one.live);
  const PassPart part{.tokens = tokens, .position = one.computed, .sequence = one.sequence, .state_in = one.live, .state_out = after};
  auto computed = compute_part(one, part);
  if (!computed && computed.error().code == ErrorCode::kCancelled) return cancel(one), Result<void>();
  LILY_RETURN_IF_ERROR(computed);
  rows_per_second_ = static_cast<double>(tokens.size()) / std::max(1e-6, seconds_since(started));
  stats_.prompt_tokens += tokens.size();
  one.computed = end;
  one.live = after;
  if (!one.wanted.empty() && one.wanted.front() == end) {
    one.wanted.erase(one.wanted.begin());
    LILY_RETURN_IF_ERROR(keep(one));
  }
  if (one.job.request.on_prefill) one.job.request.on_prefill(end, one.n_prompt());
  return {};
}

Result<void> Serving::compute_part(Running& one, const PassPart& part) {
  const GenerateRequest& request = one.job.request;
  if (!one.scores()) return run_pass(*engine_.backend, engine_.model, {.parts = {&part, 1}, .cancel = request.cancel});
  const auto next = std::span(one.prompt()).subspan(static_cast<std::size_t>(part.position) + 1, part.tokens.size());
  LILY_TRY(auto rows, run_score_pass(engine_, {.part = part, .next = next, .n_top = request.prompt_top, .cancel = request.cancel}));
  one.scored.insert(one.scored.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
  if (std::ssize(one.scored) == one.n_prompt() - 1) request.on_prompt_scored(std::move(one.scored));
  return {};
}

int Serving::chunk_rows(bool beside_answers) const {
  const int most = engine_.model.buffers.max_rows();
  if (!beside_answers) return most;
  const int rows = static_cast<int>(std::min<double>(most, rows_per_second_ * kChunkSeconds));
  return std::min(most, std::max(kLeastChunk, rows / kLeastChunk * kLeastChunk));
}

Result<void> Serving::keep(Running& one) {
  LILY_TRY(const bool kept, checkpoints_.keep(*one.chat, one.computed, one.sequence, one.live));
  one.reuse.over_budget += !kept;
  return {};
}

}  // namespace lily
