// How much of a prompt was there already, and why not more.
#pragma once

#include <string_view>

namespace lily {

enum class ReuseLimit {
  kNothingStored,  // No earlier prompt or answer begins as this prompt does.
  kWhole,          // The whole prompt was there; what chooses the next token is computed again.
  kDiffers,        // Up to token `matched`, where the prompt leaves the best stored one.
  kNoCheckpoint,   // Between `reused` and `matched` no state was kept.
  kEvicted,        // One was kept there and had to make room.
  kOverBudget,     // One there would not have fitted the budget by itself.
};

struct ReuseReport {
  int matched = 0;  // Tokens that the best stored prompt shares with this one.
  int reused = 0;   // Tokens that were not computed again.
  ReuseLimit limit = ReuseLimit::kNothingStored;
  int over_budget = 0;  // States of this request that are not kept for later ones, since the budget cannot hold them.
};

// "nothing stored", "whole", "differs", "no checkpoint", "evicted", "over budget".
std::string_view reuse_limit_name(ReuseLimit limit);

}  // namespace lily
