// Log-probabilities as chat completions write them.
#pragma once

#include <vector>

#include "server/answer.h"
#include "text/chat_json.h"
#include "text/tokenizer.h"

namespace lily::server {

// {"token", "logprob", "bytes", "top_logprobs"}; bytes are the token's own, also where they are
// only part of a character.
Json token_json(const Tokenizer& tokenizer, const TokenRecord& record);
// {"content": [...], "refusal": null} over the tokens behind the thinking.
Json logprobs_json(const Tokenizer& tokenizer, const std::vector<TokenRecord>& records);

}  // namespace lily::server
