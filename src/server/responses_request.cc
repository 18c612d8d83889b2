// The fields of responses.
#include "server/responses_request.h"

#include "server/json_build.h"
#include "server/response_format.h"
#include "text/chat_parse.h"

namespace lily::server {
namespace {

constexpr double kMostTokens = 1e9;

constexpr const char* kWithoutEffect[] = {"user",
                                          "store",
                                          "metadata",
                                          "service_tier",
                                          "safety_identifier",
                                          "prompt_cache_key",
                                          "prompt_cache_retention",
                                          "include",
                                          "client_metadata",
                                          "stream_options",
                                          "truncation"};

Result<void> refuse_unserved(Fields& fields) {
  constexpr const char* kNothingStored =
      "nothing is stored here; send the whole conversation as input";
  LILY_RETURN_IF_ERROR(fields.refuse_unless("previous_response_id", {}, kNothingStored));
  LILY_RETURN_IF_ERROR(fields.refuse_unless("conversation", {}, kNothingStored));
  LILY_RETURN_IF_ERROR(fields.refuse_unless("prompt", {}, "prompts are not stored here"));
  LILY_RETURN_IF_ERROR(
      fields.refuse_unless("background", {"false"}, "answers are given while the client waits"));
  LILY_RETURN_IF_ERROR(
      fields.refuse_unless("top_logprobs", {"0"}, "only /v1/chat/completions has it"));
  LILY_RETURN_IF_ERROR(
      fields.refuse_unless("max_tool_calls", {}, "it bounds hosted tools, and there are none"));
  return {};
}

Result<void> read_text_format(Fields& fields, ResponsesRequest& out) {
  const Json* text = fields.take("text");
  if (text == nullptr) return {};
  if (!text->is(JsonKind::kObject)) return wrong_kind("text", *text, "an object");
  Fields inner(*text, "text.");
  LILY_TRY(out.wish.format, read_response_format(inner.take("format"), "text.format"));
  inner.ignore("verbosity");
  for (auto& name : inner.ignored()) out.notes.ignored.push_back(std::move(name));
  return {};
}

Result<ThinkingWish> read_reasoning(Fields& fields, ResponsesRequest& out) {
  LILY_TRY(ThinkingWish wish, read_thinking(fields));
  const Json* reasoning = fields.take("reasoning");
  if (reasoning == nullptr) return wish;
  if (!reasoning->is(JsonKind::kObject)) return wrong_kind("reasoning", *reasoning, "an object");
  Fields inner(*reasoning, "reasoning.");
  LILY_TRY(const auto effort, inner.text("effort"));
  inner.ignore("summary");
  for (auto& name : inner.ignored()) out.notes.ignored.push_back(std::move(name));
  if (!effort) return wish;
  const auto thinks = thinking_of_effort(*effort);
  if (!thinks) {
    return Error{ErrorCode::kInvalidArgument,
                 "reasoning.effort: found " + in_quotes(*effort) +
                     ", expected none, minimal, low, medium, high, xhigh or max"};
  }
  LILY_RETURN_IF_ERROR(add_thinking(wish, *thinks, "reasoning.effort"));
  return wish;
}

Result<void> read_input(const Service& service, Fields& fields, ResponsesRequest& out) {
  LILY_TRY(const ThinkingWish thinking, read_reasoning(fields, out));
  const Json* input = fields.take("input");
  if (input == nullptr) return Error{ErrorCode::kInvalidArgument, "input: missing"};
  LILY_RETURN_IF_ERROR(refuse_media(*input, "input"));
  LILY_TRY(const Json chat,
           chat_messages_of_items(fields.take("instructions"), *input, out.notes.ignored));
  LILY_TRY(auto read, read_conversation(&chat, out.tools, thinking, service.settings.thinking));
  out.conversation = std::move(read.conversation);
  return {};
}

// Tools and their choice; everything that the reply repeats as it came.
Result<void> read_tools(Fields& fields, const Json& body, ResponsesRequest& out) {
  LILY_TRY(out.tools, read_tool_list(fields.take("tools")));
  LILY_TRY(out.wish.tool_choice, read_tool_choice(fields.take("tool_choice"), out.tools));
  LILY_TRY(const auto parallel, fields.boolean("parallel_tool_calls"));
  out.wish.parallel_calls = parallel.value_or(true);
  for (const auto& note : out.tools.left_out) out.notes.ignored.push_back(note);
  const std::pair<const char*, Json> kDefaults[] = {
      {"instructions", json_null()},
      {"max_output_tokens", json_null()},
      {"metadata", Json::object()},
      {"parallel_tool_calls", json_bool(true)},
      {"reasoning", json_object({{"effort", json_null()}, {"summary", json_null()}})},
      {"temperature", json_null()},
      {"text", json_object({{"format", json_object({{"type", json_text("text")}})}})},
      {"tool_choice", json_text("auto")},
      {"tools", Json::array()},
      {"top_p", json_null()},
      {"user", json_null()}};
  out.echoed = Json::object();
  for (const auto& [key, value] : kDefaults) {
    const Json* sent = body.find(key);
    out.echoed.set(key, is_null(sent) ? value : *sent);
  }
  return {};
}

}  // namespace

Result<ResponsesRequest> read_responses_request(const Service& service, const Json& body) {
  LILY_RETURN_IF_ERROR(check_body(body));
  ResponsesRequest out;
  Fields fields(body);
  LILY_RETURN_IF_ERROR(refuse_unserved(fields));
  LILY_RETURN_IF_ERROR(read_common(service, fields, out));
  LILY_TRY(out.wish.max_tokens, fields.integer("max_output_tokens", {1, kMostTokens, "1 or more"}));
  LILY_TRY(out.wish.stop, read_stop(fields, "stop"));
  LILY_TRY(const auto stream, fields.boolean("stream"));
  out.wish.stream = stream.value_or(false);
  LILY_RETURN_IF_ERROR(read_text_format(fields, out));
  LILY_RETURN_IF_ERROR(read_tools(fields, body, out));
  LILY_RETURN_IF_ERROR(read_input(service, fields, out));
  for (const char* key : kWithoutEffect) fields.ignore(key);
  for (auto& name : fields.ignored()) out.notes.ignored.push_back(std::move(name));
  return out;
}

}  // namespace lily::server
