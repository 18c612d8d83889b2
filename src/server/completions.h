// POST /v1/completions: a prompt is continued, without a template.
#pragma once

#include "base/result.h"
#include "server/http.h"
#include "server/service.h"
#include "text/chat_json.h"

namespace lily::server {

Result<void> completions(Service& service, HttpExchange& exchange, const Json& body);

}  // namespace lily::server
