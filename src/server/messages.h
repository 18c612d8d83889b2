// POST /v1/messages and /v1/messages/count_tokens: the door for clients of Anthropic's API.
#pragma once

#include "base/result.h"
#include "server/http.h"
#include "server/service.h"
#include "text/chat_json.h"

namespace lily::server {

Result<void> messages(Service& service, HttpExchange& exchange, const Json& body);
Result<void> count_tokens(Service& service, HttpExchange& exchange, const Json& body);

}  // namespace lily::server
