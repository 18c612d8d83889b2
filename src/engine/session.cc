// One timeline: how much of a prompt is already there, the rest in chunks, then token after token.
#include <algorithm>

#include "base/log.h"
#include "engine/answer.h"
#include "engine/answer_passes.h"

namespace lily {
namespace {


bool cancelled(const GenerateRequest& request) {
  return request.cancel && request.cancel->load(std::memory_order_relaxed);
}

}  // namespace

// The tokens that KV cache and live state stand for, and the states kept beside the live one. Passes leave their state in the other of
// slots 0 and 1, so that a pass that was cancelled or is one too many leaves no trace.
struct Session::Timeline {
  struct Checkpoint {
    int position;
    int slot;
  };
  std::vector<TokenId> tokens;
  int live = 0;                         // The slot of the state behind them.
  std::vector<Checkpoint> checkpoints;  // The least recently used first.
  std::vector<int> free_slots;

  int common_prefix(std::span<const TokenId> prompt) const {
    const auto [mine, theirs] = std::mismatch(tokens.begin(), tokens.end(), prompt.begin(), prompt.end());
    return static_cast<int>(mine - tokens.begin());
  }

  // A pass over `more` is done and right.
  void append(std::span<const TokenId> more, int state) {
    tokens.insert(tokens.end(), more.begin(), more.end());
    live = state;
  }

  // States past `position` stand for tokens that are about to be replaced.
  void forget_past(int position) {
    std::erase_if(checkpoints, [&](const Checkpoint& c) {
      if (c.position <= position) return false;
      free_slots.push_back(c.slot);
      return true;
    });
  }

  // A slot for a new checkpoint: a free one, or that of the least recently used. -1: none exists.
  int take_slot() {
    if (free_slots.empty() && !checkpoints.empty()) {
      free_slots.push_back(checkpoints.front().slot);
      checkpoints.erase(checkpoints.begin());
    }
    if (free_slots.empty()) return -1;
    const int slot = free_slots.back();
    free_slots.pop_back();
    return slot;
  }
};

Session::Session(Engine::Impl& engine) : engine_(engine), timeline_(std::make_unique<Timeline>()) { clear(); }
Session::~Session() = default;

void Session::clear() {
  passes_.reset();
  *timeline_ = {};
  // Behind the slots of sequences the pool holds checkpoints.
  const StateLimits& limits = engine_.model.state.limits();
  for (int slot = limits.n_slots; --slot >= AnswerPasses::first_slot(limits.n_sequences);) timeline_->free_slots.push_back(slot);
  engine_.model.state.truncate(0, 0);
}

// The last answer was given when its last token was known. A pass that was one too many may still be under way.
void Session::settle() {
  if (!passes_) return;
  const auto done = passes_->drain();
  passes_.reset();
  if (done) return;
  log_warning("the step behind the last answer failed, its state is dropped: " + done.error().message);
  clear();
}

// Brings the live state to the deepest kept position that the prompt shares, short of its last token, whose logits are wanted.
Result<int> Session::resume(std::span<const TokenId> prompt) {
  const int shared = std::min(timeline_->common_prefix(prompt), static_cast<int>(prompt.size()) - 1);
  if (shared == static_cast<int>(timeline_->tokens.size())) return shared;
  return rewind(shared);
}

// Brings the live state to the deepest checkpoint at or before `limit`, or to the start where there is none.
Result<int> Session::rewind(int limit) {
  Timeline& timeline = *timeline_;
  timeline.forget_past(limit);
  int position = 0;
  const auto deepest = std::max_element(timeline.checkpoints.begin(), timeline.checkpoints.end(),
                                        [](const auto& a, const auto& b) { return a.position < b.position; });
  if (deepest != timeline.checkpoints.end()) {
    position = deepest->position;
    LILY_RETURN_IF_ERROR(engine_.model.state.copy_slot(*engine_.backend, deepest->slot, timeline.live));
    std::rotate(deepest, deepest + 1, timeline.checkpoints.end());
  }
  timeline.tokens.resize(static_cast<std::size_t>(position));
  return position;
}

Result<void> Session::keep_checkpoint(int position) {
  for (const auto& kept : timeline_->checkpoints) {
    if (kept.position == position) return {};
  }
  const int slot = timeline_->take_slot();
  if (slot < 0) return {};
  LILY_RETURN_IF_ERROR(engine_.model.state.copy_slot(*engine_.backend, timeline_->live, slot));
  timeline_->checkpoints.push_back({position, slot});
  return {};
}

// The timeline is what a pass makes it. Positions where the request wants a checkpoint end a pass.
Result<void> Session::extend(const GenerateRequest& request, std::span<const TokenId> tokens, int state) {
  timeline_->append(tokens, state);
  const int position = static_cast<int>(timeline_->tokens.size());
  if (position == request.checkpoint_at) LILY_RETURN_IF_ERROR(keep_checkpoint(position));
  return {};
}

// A chunk of the prompt that is not its last one.
Result<void> Session::compute(const GenerateRequest& request, std::span<const TokenId> tokens) {
  const int before = timeline_->live, after = AnswerPasses::other_slot(before);
  const PassPart part{.tokens = tokens, .position = static_cast<int>(timeline_->tokens.size()), .state_in = before, .state_out = after};
  LILY_RETURN_IF_ERROR(run_pass(*engine_.backend, engine_.model, {.parts = {&part, 1}, .cancel = request.cancel}));
  return extend(request, tokens, after);
}

// Computes the rest of the prompt but for its last chunk, and enqueues that: it chooses the first token. False: cancelled, and the
// timeline ends with the last whole chunk.
Result<bool> Session::prefill(const GenerateRequest& request) {
  const std::span<const TokenId> prompt = request.prompt;
  const int total = static_cast<int>(prompt.size());
  for (;;) {
    if (cancelled(request)) return false;
    const int position = static_cast<int>(timeline_->tokens.size());
    int end = std::min(position + engine_.model.buffers.max_rows(), total);
    if (position < request.checkpoint_at && request.checkpoint_at < end) end = request.checkpoint_at;
    const auto tokens = prompt.subspan(static_cast<std::size_t>(position), static_cast<std::size_t>(end - position));
    const AnswerPasses::Row row{.tokens = tokens, .position = position, .sequence = 0, .state = timeline_->live, .sampling = &engine_.sampling[0]};
    const auto computed = end < total ? compute(request, tokens) : passes_->begin({&row, 1}, request.cancel);
    if (!computed && computed.error().code == ErrorCode::kCancelled) return false;
    LILY_RETURN_IF_ERROR(computed);
    if (end == total) return true;
    if (request.on_prefill) request.on_prefill(end, total);
  }
}

Result<GenerateResult> Session::generate(const GenerateRequest& request) {
  LILY_RETURN_IF_ERROR(check_request(engine_, request));
  settle();
  auto answer = answer_from_state(request);
  // A failed pass leaves state and timeline out of step with each other.
  if (!answer) clear();
  return answer;
}

Result<GenerateResult> Session::answer_from_state(const GenerateRequest& request) {
  Answer answer(engine_, request);
  GenerateResult& result = answer.result();
  LILY_TRY(result.cached_tokens, resume(request.prompt));
  // For the whole answer: running out of pages halfway would lose the work, and the table is not written while a pass is under way.
  engine_.model.state.truncate(0, result.cached_tokens);
  LILY_RETURN_IF_ERROR(engine_.model.state.reserve(*engine_.backend, 0, result.prompt_tokens + answer.limit()));
  engine_.sampling[0].begin(*engine_.backend, request.sampling, request.prompt);
  DecodeWay way = engine_.decode_way;
  if (request.lockstep) way.in_flight = 1;
  passes_ = std::make_unique<AnswerPasses>(*engine_.backend, engine_.model, way);
  LILY_TRY(const bool begun, prefill(request));
  if (!begun) {
    answer.finish(FinishReason::kCancelled);
    return result;
  }
  const std::uint64_t barriers_before = engine_.backend->barriers(), launches_before = engine_.backend->launches();
  LILY_RETURN_IF_ERROR(decode(request, answer));
  result.decode_passes = passes_->n_begun() - 1;
  result.decode_barriers = engine_.backend->barriers() - barriers_before;
  result.decode_launches = engine_.backend->launches() - launches_before;
  return result;
}

// Token after token. With two passes in flight the next one is enqueued before the token of the last is looked at, but none behind
// the last token that the request allows.
Result<void> Session::decode(const GenerateRequest& request, Answer& answer) {
  const GenerateResult& result = answer.result();
  for (bool going = true; going;) {
    while (passes_->can_follow() && passes_->n_begun() < answer.limit()) LILY_RETURN_IF_ERROR(passes_->follow());
    LILY_TRY(const auto rows, passes_->take());
    const AnswerPasses::Taken& taken = rows.front();
    if (result.tokens.empty()) {
      LILY_RETURN_IF_ERROR(extend(request, std::span(request.prompt).subspan(timeline_->tokens.size()), taken.state));
      answer.first_token_is_there();
      if (request.on_prefill) request.on_prefill(result.prompt_tokens, result.prompt_tokens);
    } else {
      timeline_->append(std::span(&result.tokens.back(), 1), taken.state);
    }
    LILY_TRY(going, answer.take(taken.chosen));
    if (going && cancelled(request)) going = answer.finish(FinishReason::kCancelled);
  }
  return {};
}

}  // namespace lily
