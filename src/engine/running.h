// One request of those that Serving has, and where its state and its pages are. Only the serving*.cc files include it.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/serving.h"

namespace lily {

struct Serving::Running {
  Running(const Engine::Impl& engine, Job taken) : job(std::move(taken)), answer(engine, job.request) {}

  const std::vector<TokenId>& prompt() const { return job.request.prompt; }
  int n_prompt() const { return static_cast<int>(job.request.prompt.size()); }
  // The last token of a prompt is the first row of the answer; all that is left of it where the first pass is for this answer alone.
  bool read() const { return chat && (computed >= n_prompt() - 1 || ends_prompt); }
  bool reading() const { return !ended && !aside && !read(); }
  bool answering() const { return !ended && !aside && read(); }
  // Where the n-th of passes to come begins.
  int position_of(int n) const { return n == 0 ? computed : std::max(n_prompt(), computed + 1) + n - 1; }
  std::span<const TokenId> next_tokens() const {
    const auto at = static_cast<std::size_t>(computed);
    if (at < prompt().size()) return std::span(prompt()).subspan(at);
    return std::span(answer.result().tokens).subspan(at - prompt().size());
  }
  bool scores() const { return static_cast<bool>(job.request.on_prompt_scored); }
  bool given_up() const { return job.request.cancel && job.request.cancel->load(std::memory_order_relaxed); }
  std::uint64_t n_chosen() const { return answer.result().tokens.size(); }

  Job job;
  Answer answer;
  int sequence = 0;
  int live = 0;            // Slot of the state behind the computed positions.
  Chat* chat = nullptr;    // Null: not begun.
  ReuseReport reuse;
  std::vector<int> wanted;  // Positions of the prompt where states are still to be kept, ascending.
  int computed = 0;        // Positions.
  int reserved = 0;        // Positions that the sequence has pages for.
  std::vector<ScoredRow> scored;  // Of the prompt, where its scores are wanted.
  std::uint64_t served = 0;
  bool ends_prompt = false;
  std::optional<std::vector<std::byte>> aside;  // Contents of its pages, while others need the room.
  bool ended = false;
  bool spoiled = false;  // A pass failed behind the end.
  std::optional<Error> error;
};

}  // namespace lily
