// The fields of Anthropic's messages.
#include "server/messages_request.h"

#include <algorithm>

#include "server/json_build.h"
#include "server/response_format.h"
#include "text/chat_parse.h"

namespace lily::server {
namespace {

constexpr double kMostTokens = 1e9;

bool has_cache_marks(const Json& value) {
  return value.find("cache_control") != nullptr ||
         std::any_of(value.items.begin(), value.items.end(), has_cache_marks);
}

// Without the word, thinking is off: clients that did not ask for it do not expect its blocks.
Result<ThinkingWish> read_thinking_block(Fields& fields, MessagesRequest& out) {
  LILY_TRY(ThinkingWish wish, read_thinking(fields));
  const Json* thinking = fields.take("thinking");
  if (thinking == nullptr) {
    wish.enabled = wish.enabled.value_or(false);
    return wish;
  }
  if (!thinking->is(JsonKind::kObject)) return wrong_kind("thinking", *thinking, "an object");
  Fields inner(*thinking, "thinking.");
  LILY_TRY(const auto type, inner.text("type"));
  if (type != "enabled" && type != "disabled" && type != "adaptive") {
    return Error{ErrorCode::kInvalidArgument, "thinking.type: found " +
                                                  in_quotes(type.value_or("")) +
                                                  ", expected enabled, adaptive or disabled"};
  }
  LILY_RETURN_IF_ERROR(add_thinking(wish, type != "disabled", "thinking.type"));
  inner.take("display");
  for (auto& name : inner.ignored()) out.notes.ignored.push_back(std::move(name));
  return wish;
}

Result<void> read_choice(Fields& fields, MessagesRequest& out) {
  const Json* choice = fields.take("tool_choice");
  LILY_TRY(out.wish.tool_choice, read_tool_choice(choice, out.tools));
  out.wish.parallel_calls =
      choice == nullptr || !is_true(choice->find("disable_parallel_tool_use"));
  return {};
}

Result<void> refuse_unserved(Fields& fields) {
  LILY_RETURN_IF_ERROR(
      fields.refuse_unless("mcp_servers", {"[]"}, "tools of other servers are not called here"));
  LILY_RETURN_IF_ERROR(fields.refuse_unless("container", {}, "containers are not served here"));
  return {};
}

Result<void> read_output_config(Fields& fields, MessagesRequest& out) {
  const Json* config = fields.take("output_config");
  if (config == nullptr) return {};
  if (!config->is(JsonKind::kObject)) return wrong_kind("output_config", *config, "an object");
  Fields inner(*config, "output_config.");
  LILY_TRY(out.wish.format, read_response_format(inner.take("format"), "output_config.format"));
  for (auto& name : inner.ignored()) out.notes.ignored.push_back(std::move(name));
  return {};
}

Result<void> read_lengths(Fields& fields, MessagesUse use, MessagesRequest& out) {
  LILY_TRY(out.wish.max_tokens, fields.integer("max_tokens", {1, kMostTokens, "1 or more"}));
  if (!out.wish.max_tokens && use == MessagesUse::kAnswer) {
    return Error{ErrorCode::kInvalidArgument, "max_tokens: missing"};
  }
  LILY_TRY(out.wish.stop, read_stop(fields, "stop_sequences"));
  LILY_TRY(const auto stream, fields.boolean("stream"));
  out.wish.stream = stream.value_or(false);
  return {};
}

Result<void> read_turns(const Service& service, Fields& fields, MessagesRequest& out) {
  const Json* turns = fields.take("messages");
  const Json* system = fields.take("system");
  if (turns == nullptr) return Error{ErrorCode::kInvalidArgument, "messages: missing"};
  LILY_RETURN_IF_ERROR(refuse_media(*turns, "messages"));
  LILY_TRY(const ThinkingWish thinking, read_thinking_block(fields, out));
  LILY_TRY(const Json chat, chat_messages(system, *turns, service.settings.keep_billing_line));
  LILY_TRY(auto read, read_conversation(&chat, out.tools, thinking, false));
  out.conversation = std::move(read.conversation);
  for (auto& name : read.ignored) out.notes.ignored.push_back(std::move(name));
  return {};
}

}  // namespace

Result<MessagesRequest> read_messages_request(const Service& service, const Json& body,
                                              MessagesUse use) {
  LILY_RETURN_IF_ERROR(check_body(body));
  MessagesRequest out;
  Fields fields(body);
  LILY_RETURN_IF_ERROR(refuse_unserved(fields));
  LILY_RETURN_IF_ERROR(read_common(service, fields, out));
  LILY_RETURN_IF_ERROR(read_output_config(fields, out));
  LILY_RETURN_IF_ERROR(read_lengths(fields, use, out));
  LILY_TRY(out.tools, read_tool_list(fields.take("tools")));
  LILY_RETURN_IF_ERROR(read_choice(fields, out));
  LILY_RETURN_IF_ERROR(read_turns(service, fields, out));
  out.marks_cache = has_cache_marks(body);
  fields.take("cache_control");
  for (const char* key : {"metadata", "service_tier", "context_management"}) fields.ignore(key);
  for (const auto& note : out.tools.left_out) out.notes.ignored.push_back(note);
  for (auto& name : fields.ignored()) out.notes.ignored.push_back(std::move(name));
  return out;
}

}  // namespace lily::server
