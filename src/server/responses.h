// POST /v1/responses: the part of OpenAI's newer API that agents use. Nothing is stored: each
// request carries its whole conversation.
#pragma once

#include "base/result.h"
#include "server/http.h"
#include "server/service.h"
#include "text/chat_json.h"

namespace lily::server {

Result<void> responses(Service& service, HttpExchange& exchange, const Json& body);

}  // namespace lily::server
