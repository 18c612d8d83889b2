// What a request to /v1/chat/completions asks for.
#pragma once

#include "server/door_request.h"

namespace lily::server {

struct ChatRequest : DoorRequest {
  Conversation conversation;
  ToolList tools;
  bool include_usage = false;
};

Result<ChatRequest> read_chat_request(const Service& service, const Json& body);

}  // namespace lily::server
