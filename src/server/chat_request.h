// What a request to /v1/chat/completions asks for.
#pragma once

#include <string>

#include "server/plan_answer.h"

namespace lily::server {

struct ChatRequest {
  std::string model;
  Conversation conversation;
  ToolList tools;
  AnswerWish wish;
  bool include_usage = false;
  ReplyNotes notes;
};

Result<ChatRequest> read_chat_request(const Service& service, const Json& body);

}  // namespace lily::server
