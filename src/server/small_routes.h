// The routes that answer at once: models, tokens, health, figures.
#pragma once

#include "base/result.h"
#include "server/http.h"
#include "server/service.h"
#include "text/chat_json.h"

namespace lily::server {

// GET /v1/models, /v1/models/ID.
HttpReply list_models(const Service& service);
Result<HttpReply> show_model(const Service& service, std::string_view id);
// GET /health: the process is there; /ready: it would take a request; /version.
HttpReply show_health();
HttpReply show_readiness(const Service& service);
HttpReply show_version(const Service& service);
// POST /tokenize {"content" or "prompt", "add_special": bool, "with_pieces": bool} and
// /detokenize {"tokens": [...]}.
Result<HttpReply> tokenize(const Service& service, const Json& body);
Result<HttpReply> detokenize(const Service& service, const Json& body);

}  // namespace lily::server
