// Each of them a page of JSON.
#include "server/small_routes.h"

#include "server/json_build.h"
#include "text/chat_parse.h"

namespace lily::server {
namespace {

constexpr std::size_t kMaxTokensToDecode = std::size_t{1} << 20;

Json model_json(const Service& service) {
  return json_object({{"id", json_text(service.settings.model_id)},
                      {"object", json_text("model")},
                      {"type", json_text("model")},
                      {"display_name", json_text(service.settings.model_id)},
                      {"created", json_int(service.settings.started_at)},
                      {"owned_by", json_text("lily")},
                      {"context_length", json_int(service.engine.context_tokens())},
                      {"max_model_len", json_int(service.engine.context_tokens())}});
}

HttpReply json_reply(const Json& body, int status = 200) {
  return {.status = status, .body = dump_json(body)};
}

}  // namespace

HttpReply list_models(const Service& service) {
  return json_reply(json_object({{"object", json_text("list")},
                                 {"data", json_list({model_json(service)})},
                                 {"has_more", json_bool(false)},
                                 {"first_id", json_text(service.settings.model_id)},
                                 {"last_id", json_text(service.settings.model_id)}}));
}

Result<HttpReply> show_model(const Service& service, std::string_view id) {
  if (id == service.settings.model_id) return json_reply(model_json(service));
  return Error{ErrorCode::kNotFound, "model: " + in_quotes(id) + " is not served here, " +
                                         in_quotes(service.settings.model_id) + " is"};
}

HttpReply show_health() {
  return json_reply(json_object({{"status", json_text("ok")}}));
}

HttpReply show_readiness(const Service& service) {
  const bool ready = !service.stopping;
  return json_reply(json_object({{"status", json_text(ready ? "ready" : "stopping")}}),
                    ready ? 200 : 503);
}

HttpReply show_version(const Service& service) {
  return json_reply(json_object({{"version", json_text(service.settings.version)},
                                 {"model", json_text(service.settings.model_id)},
                                 {"backend", json_text(service.engine.backend().name)},
                                 {"context_length", json_int(service.engine.context_tokens())}}));
}

Result<HttpReply> tokenize(const Service& service, const Json& body) {
  if (!body.is(JsonKind::kObject)) return wrong_kind("body", body, "an object");
  Fields fields(body);
  LILY_TRY(const auto content, fields.text("content"));
  LILY_TRY(const auto prompt, fields.text("prompt"));
  LILY_TRY(const auto special, fields.boolean("parse_special"));
  LILY_TRY(const auto pieces, fields.boolean("with_pieces"));
  if (!content && !prompt) return Error{ErrorCode::kInvalidArgument, "content: missing"};
  const Tokenizer& tokenizer = service.engine.tokenizer();
  const std::string& text = content ? *content : *prompt;
  const auto ids = special.value_or(true) ? tokenizer.encode(text) : tokenizer.encode_plain(text);
  Json tokens = Json::array();
  for (const TokenId id : ids) {
    tokens.items.push_back(
        pieces.value_or(false)
            ? json_object({{"id", json_int(id)}, {"piece", json_text(tokenizer.token_text(id))}})
            : json_int(id));
  }
  return json_reply(json_object({{"tokens", std::move(tokens)},
                                 {"count", json_int(static_cast<std::int64_t>(ids.size()))},
                                 {"max_model_len", json_int(service.engine.context_tokens())},
                                 {"ignored", json_texts(fields.ignored())}}));
}

Result<HttpReply> detokenize(const Service& service, const Json& body) {
  if (!body.is(JsonKind::kObject)) return wrong_kind("body", body, "an object");
  Fields fields(body);
  const Json* tokens = fields.take("tokens");
  if (tokens == nullptr) return Error{ErrorCode::kInvalidArgument, "tokens: missing"};
  if (!tokens->is(JsonKind::kArray)) return wrong_kind("tokens", *tokens, "a list of token ids");
  if (tokens->items.size() > kMaxTokensToDecode) {
    return Error{ErrorCode::kTooLarge, "tokens: " + std::to_string(tokens->items.size()) +
                                           " entries, at most " +
                                           std::to_string(kMaxTokensToDecode)};
  }
  const int vocab = service.engine.tokenizer().n_ids();
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < tokens->items.size(); ++i) {
    LILY_TRY(const auto id, read_integer(item_place("tokens", i), tokens->items[i]));
    if (id < 0 || id >= vocab) {
      return Error{ErrorCode::kInvalidArgument, item_place("tokens", i) + ": " +
                                                    std::to_string(id) + ", expected 0 .. " +
                                                    std::to_string(vocab - 1)};
    }
    ids.push_back(static_cast<TokenId>(id));
  }
  const std::string text = service.engine.tokenizer().decode(ids);
  return json_reply(json_object({{"content", json_text(text)},
                                 {"prompt", json_text(text)},
                                 {"ignored", json_texts(fields.ignored())}}));
}

}  // namespace lily::server
