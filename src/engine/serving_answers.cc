// A token of each answer: whose rows a pass has, what it may choose, what becomes of it.
#include <algorithm>

#include "engine/running.h"

namespace lily {

// Counts the pass that is begun while it is there for all whose rows it has, but for the first of an answer, which is the prompt's.
class Serving::PassCount {
 public:
  explicit PassCount(Serving& serving) : serving_(serving), barriers_(backend().barriers()), launches_(backend().launches()) {}
  PassCount(const PassCount&) = delete;
  PassCount& operator=(const PassCount&) = delete;
  ~PassCount() {
    for (Running* one : serving_.in_passes_) {
      GenerateResult& result = one->answer.result();
      if (serving_.passes_->in_flight() == 1 && one->n_chosen() == 0) continue;
      ++result.decode_passes;
      result.decode_barriers += backend().barriers() - barriers_;
      result.decode_launches += backend().launches() - launches_;
    }
  }

 private:
  const Backend& backend() const { return *serving_.engine_.backend; }
  Serving& serving_;
  const std::uint64_t barriers_, launches_;
};

void Serving::answer_step() {
  const auto started = Clock::now();
  auto done = passes_ ? Result<void>() : begin_passes();
  while (done && passes_ && passes_->can_follow() && may_follow()) {
    write_masks();
    const PassCount count(*this);
    done = passes_->follow();
  }
  if (!done) {
    fail_passes(done.error());
  } else if (passes_ && passes_->in_flight() > 0) {
    take();
  } else {
    settle();
  }
  prompts_owe_seconds_ = std::max(0.0, prompts_owe_seconds_ - seconds_since(started));
}

// Those that have waited longest, as many as a pass may have rows, each with positions to write to.
std::vector<Serving::Running*> Serving::next_answers() {
  std::vector<Running*> out;
  for (const auto& one : running_) {
    // Somebody came meanwhile: what is left of the prompt is a chunk after all.
    if (running_.size() > 1 && one->computed < one->n_prompt() - 1) one->ends_prompt = false;
    if (one->answering()) out.push_back(one.get());
  }
  std::stable_sort(out.begin(), out.end(), [](const Running* a, const Running* b) { return a->served < b->served; });
  out.resize(std::min(out.size(), static_cast<std::size_t>(engine_.backend->info().few_rows)));
  for (Running* one : out) {
    const int last = one->n_prompt() + one->answer.limit();
    if (one->answering()) make_room(*one, std::min(one->position_of(1) + kPositionsAhead, last));
  }
  std::erase_if(out, [](const Running* one) { return !one->answering(); });
  return out;
}

Result<void> Serving::begin_passes() {
  in_passes_ = next_answers();
  if (in_passes_.empty()) return {};
  DecodeWay way = engine_.decode_way;
  std::vector<AnswerPasses::Row> rows;
  ++steps_;
  for (Running* one : in_passes_) {
    one->served = steps_;
    rows.push_back({.tokens = one->next_tokens(), .position = one->computed, .sequence = one->sequence, .state = one->live,
                    .sampling = &engine_.sampling[static_cast<std::size_t>(one->sequence)], .draw = one->n_chosen()});
    if (one->job.request.lockstep || one->job.request.constraint) way.in_flight = 1;
  }
  write_masks();
  passes_ = std::make_unique<AnswerPasses>(*engine_.backend, engine_.model, way);
  const PassCount count(*this);
  return passes_->begin(rows, rows.size() == 1 ? in_passes_.front()->job.request.cancel : nullptr);
}

// Whether all whose rows the passes have need another pass behind those in flight, and nobody waits for a place in them.
bool Serving::may_follow() const {
  const auto n_answering = std::count_if(running_.begin(), running_.end(), [](const auto& one) { return one->answering(); });
  return n_answering == std::ssize(in_passes_) && std::all_of(in_passes_.begin(), in_passes_.end(), [&](const Running* one) {
    const int n_begun = passes_->in_flight() + static_cast<int>(one->n_chosen());
    return one->answering() && n_begun < one->answer.limit() && one->position_of(passes_->in_flight()) < one->reserved;
  });
}

// Which tokens each may choose next. Nothing is in flight where there is one with a constraint.
void Serving::write_masks() {
  for (Running* one : in_passes_) {
    if (!one->job.request.constraint) continue;
    one->job.request.constraint->allowed(mask_);
    engine_.sampling[static_cast<std::size_t>(one->sequence)].set_allowed(*engine_.backend, mask_);
  }
}

void Serving::take() {
  const auto rows = passes_->take();
  if (!rows) return fail_passes(rows.error());
  for (std::size_t i = 0; i < in_passes_.size(); ++i) {
    if (in_passes_[i]->ended) continue;
    auto taken = take_token(*in_passes_[i], (*rows)[i]);
    if (!taken) fail(*in_passes_[i], std::move(taken).error());
  }
}

Result<void> Serving::take_token(Running& one, const AnswerPasses::Taken& taken) {
  const GenerateRequest& request = one.job.request;
  GenerateResult& result = one.answer.result();
  stats_.prompt_tokens += static_cast<std::uint64_t>(std::max(0, one.n_prompt() - one.computed));
  one.computed = one.position_of(1);
  one.live = taken.state;
  if (result.tokens.empty()) {
    one.answer.first_token_is_there();
    if (request.on_prefill) request.on_prefill(one.n_prompt(), one.n_prompt());
  }
  const TokenId token = taken.chosen.token;
  if (request.constraint && token >= 0 && !request.constraint->accept(token)) {
    return Error{ErrorCode::kInvalidArgument, "the grammar of the answer does not take token " + std::to_string(token)};
  }
  const std::size_t before = result.tokens.size();
  LILY_TRY(const bool going, one.answer.take(taken.chosen));
  if (result.tokens.size() > before) checkpoints_.extend(*one.chat, token);
  if (!going) one.ended = true;
  if (going && one.given_up()) cancel(one);
  return {};
}

// No pass is in flight any more, and what all of them computed is taken.
void Serving::settle() {
  while (passes_ && passes_->in_flight() > 0) take();
  passes_.reset();
  in_passes_.clear();
}

void Serving::fail_passes(const Error& error) {
  for (Running* one : in_passes_) {
    // Whoever has its answer already has it, but nothing of it is kept.
    if (one->ended) {
      one->spoiled = true;
    } else {
      error.code == ErrorCode::kCancelled ? cancel(*one) : fail(*one, error);
    }
  }
  passes_.reset();
  in_passes_.clear();
}

}  // namespace lily
