// Where the state of a prompt is worth keeping.
#pragma once

#include <span>
#include <vector>

namespace lily {

struct PromptShape {
  std::span<const int> borders;  // Where messages begin, ascending.
  int n_tokens = 0;
  int every = 0;                 // Tokens between states of a long input, at least.
};

// Positions in 1 .. n_tokens - 1, ascending:
//   the first border (other chats begin with the same system text), the last two (the last message may be edited, the answer's own
//   beginning may be rendered anew), every so many tokens (seven times at most, so that one long prompt does
//   not drive out all others), and all but the last token, unless a border is near.
// A state costs what a pass over about ten tokens does and ends a chunk, so none lies within 16 tokens behind another one, but for the
// last border, which the next turn needs.
std::vector<int> kept_positions(const PromptShape& prompt);

}  // namespace lily
