// What a request to /v1/responses asks for.
#pragma once

#include "server/door_request.h"

namespace lily::server {

struct ResponsesRequest : DoorRequest {
  Conversation conversation;
  ToolList tools;
  Json echoed;  // Fields that the reply repeats, as they came.
};

Result<ResponsesRequest> read_responses_request(const Service& service, const Json& body);

// Instructions and input items as messages of chat completions. Kinds of items that have no place
// in a prompt are listed in `left_out`.
Result<Json> chat_messages_of_items(const Json* instructions, const Json& input,
                                    std::vector<std::string>& left_out);

}  // namespace lily::server
