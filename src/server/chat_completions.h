// POST /v1/chat/completions.
#pragma once

#include "base/result.h"
#include "server/http.h"
#include "server/service.h"
#include "text/chat_json.h"

namespace lily::server {

// Replies, or streams, or returns the error that the router replies with.
Result<void> chat_completions(Service& service, HttpExchange& exchange, const Json& body);
// POST /apply-template: the same request, and the prompt that it would become.
Result<void> apply_template(Service& service, HttpExchange& exchange, const Json& body);

}  // namespace lily::server
