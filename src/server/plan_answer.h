// From a conversation and a door's wishes to what the engine is asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/answer.h"
#include "server/api_error.h"
#include "server/chat_prompt.h"
#include "server/replay.h"
#include "server/response_format.h"
#include "server/service.h"
#include "server/tool_list.h"

namespace lily::server {

struct AnswerWish {
  SamplingParams sampling;
  std::optional<std::int64_t> max_tokens;
  std::vector<std::string> stop;
  int n = 1;
  bool want_tokens = false;  // Log-probabilities.
  bool want_progress = false;
  bool stream = false;
  ToolChoice tool_choice;
  bool parallel_calls = true;
  std::optional<JsonFormat> format = {};            // The answer has to be JSON of it.
  std::optional<std::vector<TokenId>> replay = {};  // The tokens of the answer: for tests.
};

struct PlannedAnswer {
  AnswerSpec spec;
  std::vector<std::string> clamped;  // "max_tokens: 50, room for 6"
  // The context cannot hold the prompt and one token more: what the client is told, under a code of
  // its own, so that an agent can shorten its conversation.
  std::optional<ApiError> over_context;
};

Result<PlannedAnswer> plan_chat(Service& service, const Conversation& conversation,
                                const ToolList& tools, const AnswerWish& wish);
// The same for a prompt without a template.
Result<PlannedAnswer> plan_text(Service& service, std::vector<TokenId> prompt,
                                const AnswerWish& wish);

// What every reply adds under "lily": fields that were ignored or clamped, how much of the prompt
// was there already and why not more, the seed, and times.
struct ReplyNotes {
  std::vector<std::string> ignored;
  std::vector<std::string> clamped;
  std::uint64_t seed = 0;
};
Json notes_json(const ReplyNotes& notes, const GenerateResult& result);

}  // namespace lily::server
