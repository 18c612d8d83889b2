// The fields of chat completions, one after the other.
#include "server/chat_request.h"

#include "server/json_build.h"
#include "server/limits.h"
#include "server/response_format.h"
#include "text/chat_parse.h"

namespace lily::server {
namespace {

constexpr double kMostTokens = 1e9;

// What clients send by default or for their own books, and what has no effect on an answer here.
constexpr const char* kWithoutEffect[] = {"user",
                                          "store",
                                          "metadata",
                                          "service_tier",
                                          "safety_identifier",
                                          "prompt_cache_key",
                                          "prompt_cache_retention",
                                          "verbosity"};

struct Refused {
  const char* key;
  std::initializer_list<std::string_view> neutral;
  const char* reason;
};

Result<void> refuse_unserved(Fields& fields) {
  const Refused kRefused[] = {
      {"modalities", {"[\"text\"]", "[]"}, "only text is served here"},
      {"audio", {}, "sound is not served here"},
      {"prediction", {}, "predicted outputs are not served here"},
      {"web_search_options", {}, "the web is not searched here"},
      {"functions", {"[]"}, "an older spelling; send tools"},
      {"function_call", {"\"auto\"", "\"none\""}, "an older spelling; send tool_choice"},
      {"best_of", {"1"}, "only 1 is served; n gives several choices"},
      {"use_beam_search", {"false"}, "beams are not served here"},
      {"length_penalty", {"1", "1.0", "0", "0.0"}, "beams are not served here"},
      {"grammar", {"\"\""}, "raw grammars are not served here"},
      {"guided_json", {}, "send response_format"},
      {"guided_regex", {}, "not served here"},
      {"guided_choice", {}, "not served here"},
      {"guided_grammar", {}, "raw grammars are not served here"},
      {"ignore_eos", {"false"}, "not served here; logit_bias can forbid end tokens"},
      {"min_tokens", {"0"}, "not served here"},
      {"typical_p", {"1", "1.0"}, "this sampler is not there"},
      {"mirostat", {"0"}, "this sampler is not there"},
      {"tfs_z", {"1", "1.0"}, "this sampler is not there"},
      {"top_a", {"0", "0.0"}, "this sampler is not there"},
      {"echo", {"false"}, "only /v1/completions has it"},
  };
  for (const Refused& one : kRefused) {
    LILY_RETURN_IF_ERROR(fields.refuse_unless(one.key, one.neutral, one.reason));
  }
  return {};
}

// max_completion_tokens is the newer name of max_tokens; both may be sent if they agree.
Result<std::optional<std::int64_t>> read_max_tokens(Fields& fields) {
  const Fields::Range range{1, kMostTokens, "1 or more"};
  LILY_TRY(const auto older, fields.integer("max_tokens", range));
  LILY_TRY(const auto newer, fields.integer("max_completion_tokens", range));
  if (older && newer && *older != *newer) {
    return Error{ErrorCode::kInvalidArgument, "max_completion_tokens: " + std::to_string(*newer) +
                                                  ", and max_tokens is " + std::to_string(*older) +
                                                  "; they mean the same"};
  }
  return newer ? newer : older;
}

Result<void> read_logprobs(Fields& fields, AnswerWish& wish) {
  LILY_TRY(const auto wanted, fields.boolean("logprobs"));
  LILY_TRY(const auto n_top, fields.integer("top_logprobs", {0, kMaxTopLogProbs, "0 .. 20"}));
  wish.want_tokens = wanted.value_or(false);
  if (n_top.value_or(0) > 0 && !wish.want_tokens) {
    return Error{ErrorCode::kInvalidArgument, "top_logprobs: needs logprobs to be true"};
  }
  wish.sampling.n_top = static_cast<int>(n_top.value_or(0));
  return {};
}

Result<void> read_stream(Fields& fields, ChatRequest& out) {
  LILY_TRY(const auto stream, fields.boolean("stream"));
  LILY_TRY(const auto progress, fields.boolean("return_progress"));
  out.wish.stream = stream.value_or(false);
  out.wish.want_progress = progress.value_or(false);
  const Json* options = fields.take("stream_options");
  if (options == nullptr) return {};
  if (!options->is(JsonKind::kObject)) return wrong_kind("stream_options", *options, "an object");
  Fields inner(*options, "stream_options.");
  LILY_TRY(const auto usage, inner.boolean("include_usage"));
  out.include_usage = usage.value_or(false);
  for (auto& name : inner.ignored()) out.notes.ignored.push_back(std::move(name));
  return {};
}

Result<void> read_tools_and_choice(Fields& fields, ChatRequest& out) {
  LILY_TRY(out.tools, read_tool_list(fields.take("tools")));
  LILY_TRY(out.wish.tool_choice, read_tool_choice(fields.take("tool_choice"), out.tools));
  LILY_TRY(const auto parallel, fields.boolean("parallel_tool_calls"));
  out.wish.parallel_calls = parallel.value_or(true);
  for (const auto& note : out.tools.left_out) out.notes.ignored.push_back(note);
  return {};
}

Result<void> read_messages(const Service& service, Fields& fields, ChatRequest& out) {
  LILY_TRY(const ThinkingWish thinking, read_thinking(fields));
  LILY_TRY(auto chat, read_conversation(fields.take("messages"), out.tools, thinking,
                                        service.settings.thinking));
  out.conversation = std::move(chat.conversation);
  for (auto& name : chat.ignored) out.notes.ignored.push_back(std::move(name));
  return {};
}

}  // namespace

Result<ChatRequest> read_chat_request(const Service& service, const Json& body) {
  LILY_RETURN_IF_ERROR(check_body(body));
  ChatRequest out;
  Fields fields(body);
  LILY_RETURN_IF_ERROR(refuse_unserved(fields));
  LILY_RETURN_IF_ERROR(read_common(service, fields, out));
  LILY_TRY(out.wish.max_tokens, read_max_tokens(fields));
  LILY_TRY(out.wish.stop, read_stop(fields, "stop"));
  LILY_TRY(const auto n, fields.integer("n", {1, kMaxChoices, "1 .. 16"}));
  out.wish.n = static_cast<int>(n.value_or(1));
  LILY_RETURN_IF_ERROR(read_logprobs(fields, out.wish));
  LILY_RETURN_IF_ERROR(read_stream(fields, out));
  LILY_TRY(out.wish.format,
           read_response_format(fields.take("response_format"), "response_format"));
  LILY_RETURN_IF_ERROR(read_tools_and_choice(fields, out));
  LILY_RETURN_IF_ERROR(read_messages(service, fields, out));
  for (const char* key : kWithoutEffect) fields.ignore(key);
  for (auto& name : fields.ignored()) out.notes.ignored.push_back(std::move(name));
  return out;
}

}  // namespace lily::server
