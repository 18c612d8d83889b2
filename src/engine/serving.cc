// Who comes, whose turn it is, who goes. Whoever ends is told when no pass is in flight that knows of it.
#include "engine/serving.h"

#include <algorithm>
#include <utility>

#include "engine/kept_positions.h"
#include "engine/running.h"

namespace lily {
namespace {

std::unique_ptr<CheckpointFiles> files_of(const Engine::Impl& engine, const Path& folder) {
  if (folder.empty() || engine.checkpoint_bytes == 0) return nullptr;
  const ModelState& state = engine.model.state;
  return CheckpointFiles::open(folder, {.model = engine.fingerprint, .slot_bytes = state.slot_bytes(), .page_bytes = state.page_bytes()});
}

}  // namespace

Serving::Serving(Engine::Impl& engine, const ServingOptions& options)
    : engine_(engine),
      options_(options),
      checkpoints_(*engine.backend, engine.model.state, engine.checkpoint_bytes, files_of(engine, options.state_dir)),
      mask_(static_cast<std::size_t>(engine.model.vocab_used + 31) / 32) {
  for (int i = engine.model.state.limits().n_sequences; i-- > 0;) free_sequences_.push_back(i);
}

Serving::~Serving() {
  settle();
  for (const auto& one : running_) engine_.model.state.truncate(one->sequence, 0);
}

bool Serving::has_room(const GenerateRequest& request) const {
  if (running_.empty()) return true;
  const bool none_aside = std::none_of(running_.begin(), running_.end(), [](const auto& one) { return one->aside.has_value(); });
  return !free_sequences_.empty() && none_aside &&
         checkpoints_.pages_within_reach() >= ModelState::pages_for(static_cast<int>(request.prompt.size()) + 1);
}

void Serving::admit(Job job) {
  auto one = std::make_unique<Running>(engine_, std::move(job));
  one->sequence = free_sequences_.back();
  free_sequences_.pop_back();
  one->live = AnswerPasses::first_slot(one->sequence);
  if (checkpoints_.budget() > 0) {
    one->wanted = kept_positions({.borders = one->job.request.borders, .n_tokens = one->n_prompt(), .every = options_.every_tokens});
  }
  running_.push_back(std::move(one));
}

Serving::Ended Serving::decline(Job job) {
  Answer answer(engine_, job.request);
  answer.finish(FinishReason::kCancelled);
  Result<GenerateResult> result = std::move(answer.result());
  count(result);
  return {std::move(job.on_done), std::move(result)};
}

std::vector<Serving::Ended> Serving::step() {
  for (const auto& one : running_) {
    if (!one->ended && one->given_up()) cancel(*one);
  }
  retire();
  bring_back();
  const bool answers = std::any_of(running_.begin(), running_.end(), [](const auto& one) { return one->answering(); });
  Running* const prompt = !answers || prompts_owe_seconds_ <= 0 ? next_prompt() : nullptr;
  if (prompt) {
    read_chunk(*prompt, answers);
  } else if (answers) {
    answer_step();
  }
  retire();
  return std::exchange(ended_, {});
}

void Serving::cancel_all() {
  for (const auto& one : running_) {
    if (one->job.cancel) one->job.cancel->store(true);
  }
}

void Serving::cancel(Running& one) {
  one.answer.finish(FinishReason::kCancelled);
  one.ended = true;
}

void Serving::fail(Running& one, Error error) {
  one.error = std::move(error);
  one.ended = true;
}

// Keeps what those that ended leave.
void Serving::retire() {
  const auto ended = [](const auto& one) { return one->ended; };
  if (std::none_of(running_.begin(), running_.end(), ended)) return;
  settle();
  const auto first = std::stable_partition(running_.begin(), running_.end(), [&](const auto& one) { return !ended(one); });
  std::vector<std::unique_ptr<Running>> gone(std::make_move_iterator(first), std::make_move_iterator(running_.end()));
  running_.erase(first, running_.end());
  for (const auto& one : gone) {
    leave(*one);
    free_sequences_.push_back(one->sequence);
  }
  for (const auto& one : gone) ended_.push_back(last_words(*one));
}

// A state that an error came out of is not to be trusted, nor those before it.
void Serving::leave(Running& one) {
  if (one.chat && !one.error && !one.spoiled && !one.aside && one.computed > 0) {
    auto kept = keep(one);
    if (!kept) one.error = std::move(kept).error();
  }
  if (one.chat && one.error) checkpoints_.forget(one.chat->tokens());
  if (one.chat) checkpoints_.end(*one.chat);
  engine_.model.state.truncate(one.sequence, 0);
}

Serving::Ended Serving::last_words(Running& one) {
  Result<GenerateResult> result = std::move(one.answer.result());
  result->reuse = one.reuse;
  result->cached_tokens = one.reuse.reused;
  if (one.error) result = *std::move(one.error);
  count(result);
  return {std::move(one.job.on_done), std::move(result)};
}

void Serving::count(const Result<GenerateResult>& result) {
  if (!result) {
    ++stats_.failed;
    return;
  }
  ++(result->finish == FinishReason::kCancelled ? stats_.cancelled : stats_.finished);
  stats_.generated_tokens += result->tokens.size();
  stats_.reused_tokens += static_cast<std::uint64_t>(result->cached_tokens);
  stats_.prefix_hits += result->cached_tokens > 0;
}

SchedulerStats Serving::stats() const {
  SchedulerStats out = stats_;
  const CheckpointCounts kept = checkpoints_.counts();
  out.running = static_cast<int>(running_.size());
  out.evictions = kept.evictions;
  out.over_budget = kept.over_budget;
  out.checkpoints = kept.held;
  out.checkpoint_bytes = kept.bytes;
  out.disk_bytes = kept.disk_bytes;
  return out;
}

}  // namespace lily
