// Playing given tokens in place of the model's own choice: for tests of parsers, streams and
// endings. The engine computes as always; a constraint lets one token through at a time.
#pragma once

#include <optional>
#include <vector>

#include "server/constraints.h"
#include "server/fields.h"

namespace lily::server {

// The field "replay", a text or a list of token ids.
Result<std::optional<std::vector<TokenId>>> read_replay(Fields& fields, const Tokenizer& tokenizer);

// The tokens, then the end of the answer.
Constraints replay_constraints(const Engine& engine, std::vector<TokenId> tokens);

}  // namespace lily::server
