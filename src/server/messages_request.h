// What a request to /v1/messages asks for.
#pragma once

#include "server/door_request.h"

namespace lily::server {

struct MessagesRequest : DoorRequest {
  Conversation conversation;
  ToolList tools;
  bool marks_cache = false;  // Some block carries cache_control.
};

enum class MessagesUse { kAnswer, kCount };  // Counting needs no max_tokens.
Result<MessagesRequest> read_messages_request(const Service& service, const Json& body,
                                              MessagesUse use);

// System blocks and turns of blocks as messages of chat completions. `keep_billing_line`: a block
// or line "x-anthropic-billing-header: ..." at the system text's start stays.
Result<Json> chat_messages(const Json* system, const Json& messages, bool keep_billing_line);

}  // namespace lily::server
