// The reply of chat completions, whole or in chunks.
#include "server/chat_completions.h"

#include "server/chat_request.h"
#include "server/custom_call.h"
#include "server/json_build.h"
#include "server/run_answer.h"
#include "server/stream_end.h"
#include "server/token_json.h"

namespace lily::server {
namespace {

struct Frame {
  Service& service;
  const ChatRequest& request;
  std::string id = new_id("chatcmpl-");
  std::int64_t created = seconds_since_1970();
};

Json reply_object(const Frame& frame, const char* object, Json choices) {
  return json_object({{"id", json_text(frame.id)},
                      {"object", json_text(object)},
                      {"created", json_int(frame.created)},
                      {"model", json_text(frame.request.model)},
                      {"system_fingerprint", json_text("lily-" + frame.service.settings.version)},
                      {"choices", std::move(choices)}});
}

Json usage_json(const Usage& usage) {
  return json_object(
      {{"prompt_tokens", json_int(usage.prompt_tokens)},
       {"completion_tokens", json_int(usage.completion_tokens)},
       {"total_tokens", json_int(usage.prompt_tokens + usage.completion_tokens)},
       {"prompt_tokens_details", json_object({{"cached_tokens", json_int(usage.cached_tokens)},
                                              {"audio_tokens", json_int(0)}})},
       {"completion_tokens_details",
        json_object({{"reasoning_tokens", json_int(usage.reasoning_tokens)},
                     {"audio_tokens", json_int(0)},
                     {"accepted_prediction_tokens", json_int(0)},
                     {"rejected_prediction_tokens", json_int(0)}})}});
}

Json call_json(const ToolList& tools, const std::string& name, const std::string& arguments) {
  if (!tools.is_custom(name)) {
    return json_object({{"id", json_text(new_id("call_"))},
                        {"type", json_text("function")},
                        {"function", json_object({{"name", json_text(name)},
                                                  {"arguments", json_text(arguments)}})}});
  }
  return json_object({{"id", json_text(new_id("call_"))},
                      {"type", json_text("custom")},
                      {"custom", json_object({{"name", json_text(name)},
                                              {"input", json_text(custom_input(arguments))}})}});
}

Json message_json(const Frame& frame, const Reply& reply) {
  Json message = json_object({{"role", json_text("assistant")}});
  const bool no_content = reply.content.empty() && !reply.calls.empty();
  message.set("content", no_content ? json_null() : json_text(reply.content));
  message.set("refusal", json_null());
  if (!reply.reasoning.empty()) message.set("reasoning_content", json_text(reply.reasoning));
  if (reply.calls.empty()) return message;
  Json calls = Json::array();
  for (const auto& call : reply.calls) {
    calls.items.push_back(call_json(frame.request.tools, call.name, call.arguments));
  }
  message.set("tool_calls", std::move(calls));
  return message;
}

Json choice_json(const Frame& frame, int index, const CollectedChoice& choice) {
  const bool tokens = frame.request.wish.want_tokens;
  return json_object(
      {{"index", json_int(index)},
       {"message", message_json(frame, choice.reply)},
       {"logprobs",
        tokens ? logprobs_json(frame.service.engine.tokenizer(), choice.tokens) : json_null()},
       {"finish_reason", json_text(choice.end.finish)}});
}

Result<void> reply_whole(const Frame& frame, HttpExchange& exchange, Answer& answer) {
  Collector collector(frame.request.wish.n);
  LILY_TRY(const auto end, collect_answer(exchange, answer, collector));
  if (end == RunEnd::kClientLeft) return {};
  Json choices = Json::array();
  Usage usage;
  for (const CollectedChoice& choice : collector.choices()) {
    choices.items.push_back(choice_json(frame, static_cast<int>(choices.items.size()), choice));
    usage.add(choice.end);
    frame.service.metrics.observe_answer(choice.end.result);
  }
  Json reply = reply_object(frame, "chat.completion", std::move(choices));
  reply.set("usage", usage_json(usage));
  reply.set("lily", notes_json(frame.request.notes, collector.choices().front().end.result));
  exchange.reply({.body = dump_json(reply)});
  return {};
}

// Chunks as the answer comes. Records of tokens travel with the next piece of text.
class ChunkWriter final : public AnswerListener {
 public:
  ChunkWriter(const Frame& frame, EventStream& stream)
      : frame_(frame),
        stream_(stream),
        records_(static_cast<std::size_t>(frame.request.wish.n)),
        custom_(frame.request.tools) {}

  void begin() {
    for (int i = 0; i < frame_.request.wish.n; ++i) {
      put(i, json_object({{"role", json_text("assistant")}, {"content", json_text("")}}));
    }
  }

  void on_prefill(int done, int total) override {
    Json chunk = reply_object(frame_, "chat.completion.chunk", Json::array());
    chunk.set("prompt_progress",
              json_object({{"processed", json_int(done)}, {"total", json_int(total)}}));
    stream_.send(dump_json(chunk));
  }

  void on_token(int choice, TokenRecord record) override {
    records_[static_cast<std::size_t>(choice)].push_back(std::move(record));
  }

  void on_event(int choice, const ReplyEvent& event) override {
    using Kind = ReplyEvent::Kind;
    if (event.kind == Kind::kReasoning) {
      put(choice, json_object({{"reasoning_content", json_text(event.text)}}));
    } else if (event.kind == Kind::kContent) {
      put(choice, json_object({{"content", json_text(event.text)}}));
    } else {
      put_call(choice, event);
    }
  }

  void on_end(int choice, ChoiceEnd end) override {
    usage_.add(end);
    frame_.service.metrics.observe_answer(end.result);
    Json chunk = chunk_json(choice, Json::object(), end.finish);
    chunk.set("lily", notes_json(frame_.request.notes, end.result));
    stream_.send(dump_json(chunk));
  }

  void finish() {
    if (frame_.request.include_usage) {
      Json chunk = reply_object(frame_, "chat.completion.chunk", Json::array());
      chunk.set("usage", usage_json(usage_));
      stream_.send(dump_json(chunk));
    }
    stream_.send("[DONE]");
  }

 private:
  Json chunk_json(int choice, Json delta, const std::string& finish) {
    auto& records = records_[static_cast<std::size_t>(choice)];
    const bool tokens = !records.empty();
    Json logprobs =
        tokens ? logprobs_json(frame_.service.engine.tokenizer(), records) : json_null();
    records.clear();
    return reply_object(
        frame_, "chat.completion.chunk",
        json_list(
            {json_object({{"index", json_int(choice)},
                          {"delta", std::move(delta)},
                          {"logprobs", std::move(logprobs)},
                          {"finish_reason", finish.empty() ? json_null() : json_text(finish)}})}));
  }

  void put(int choice, Json delta) {
    stream_.send(dump_json(chunk_json(choice, std::move(delta), "")));
  }

  void put_call_delta(int choice, std::size_t index, Json call) {
    call.set("index", json_int(static_cast<std::int64_t>(index)));
    put(choice, json_object({{"tool_calls", json_list({std::move(call)})}}));
  }

  void put_call(int choice, const ReplyEvent& event) {
    using Kind = ReplyEvent::Kind;
    const ToolList& tools = frame_.request.tools;
    std::optional<CustomCalls::Call> custom;
    if (custom_.take(choice, event, custom)) {
      if (custom)
        put_call_delta(choice, event.call_idx, call_json(tools, custom->name, custom->arguments));
    } else if (event.kind == Kind::kCallStart) {
      put_call_delta(choice, event.call_idx, call_json(tools, event.text, ""));
    } else if (event.kind == Kind::kCallArguments) {
      Json arguments = json_object({{"arguments", json_text(event.text)}});
      put_call_delta(choice, event.call_idx, json_object({{"function", std::move(arguments)}}));
    }
  }

  const Frame& frame_;
  EventStream& stream_;
  std::vector<std::vector<TokenRecord>> records_;
  CustomCalls custom_;
  Usage usage_;
};

Result<void> reply_stream(const Frame& frame, HttpExchange& exchange, Answer& answer) {
  EventStream stream(exchange);
  ChunkWriter writer(frame, stream);
  stream_chunks(frame.service, exchange, answer, stream, writer);
  return {};
}

}  // namespace

Result<void> chat_completions(Service& service, HttpExchange& exchange, const Json& body) {
  LILY_TRY(ChatRequest request, read_chat_request(service, body));
  LILY_TRY(auto plan, plan_chat(service, request.conversation, request.tools, request.wish));
  if (plan.over_context) {
    exchange.reply(error_reply(*plan.over_context, Dialect::kOpenAi));
    return {};
  }
  request.notes.clamped = std::move(plan.clamped);
  LILY_TRY(const auto answer, Answer::start(service.scheduler, std::move(plan.spec)));
  const Frame frame{service, request};
  if (request.wish.stream) return reply_stream(frame, exchange, *answer);
  return reply_whole(frame, exchange, *answer);
}

Result<void> apply_template(Service& service, HttpExchange& exchange, const Json& body) {
  LILY_TRY(const ChatRequest request, read_chat_request(service, body));
  LILY_TRY(const RenderedPrompt rendered, render_chat(request.conversation));
  LILY_TRY(const ChatPrompt prompt, encode_chat(service.engine.tokenizer(), request.conversation));
  Json tokens = Json::array();
  for (const TokenId id : prompt.tokens) tokens.items.push_back(json_int(id));
  exchange.reply({.body = dump_json(json_object(
                      {{"prompt", json_text(rendered.text())},
                       {"tokens", std::move(tokens)},
                       {"count", json_int(static_cast<std::int64_t>(prompt.tokens.size()))},
                       {"in_thinking", json_bool(prompt.in_thinking)},
                       {"ignored", json_texts(request.notes.ignored)}}))});
  return {};
}

}  // namespace lily::server
