// What a request has at every door: which model, how it shall answer, what became of its fields.
#pragma once

#include <string>

#include "server/fields.h"
#include "server/plan_answer.h"

namespace lily::server {

struct DoorRequest {
  std::string model;
  AnswerWish wish;
  ReplyNotes notes;
};

// kInvalidArgument unless the body is an object.
Result<void> check_body(const Json& body);
// "model", how tokens are drawn, and "replay" where the server plays given tokens.
Result<void> read_common(const Service& service, Fields& fields, DoorRequest& out);

}  // namespace lily::server
