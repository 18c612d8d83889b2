// Anthropic's reply, whole or as events.
#include "server/messages.h"

#include "server/block_listener.h"
#include "server/event_stream.h"
#include "server/json_build.h"
#include "server/messages_request.h"
#include "server/run_answer.h"
#include "server/stream_end.h"

namespace lily::server {
namespace {

using Kind = BlockListener::Kind;

// Whatever comes back with a thinking block is taken; clients want something to send.
constexpr const char* kSignature = "bGlseQ==";

struct Frame {
  Service& service;
  const MessagesRequest& request;
  int n_prompt;
  int n_behind_border;  // Tokens of the prompt behind its last message: they belong to no cache.
  std::string id = new_id("msg_");
};

// The three add up to the prompt. What was computed counts as written to the cache where the client
// marked something for it.
Json usage_json(const Frame& frame, int n_cached, int n_output) {
  const int computed = frame.n_prompt - n_cached;
  const int input =
      frame.request.marks_cache ? std::min(computed, frame.n_behind_border) : computed;
  return json_object({{"input_tokens", json_int(input)},
                      {"cache_creation_input_tokens", json_int(computed - input)},
                      {"cache_read_input_tokens", json_int(n_cached)},
                      {"output_tokens", json_int(n_output)}});
}

const char* stop_reason(const ChoiceEnd& end) {
  if (end.finish == "tool_calls") return "tool_use";
  if (end.finish == "length") return "max_tokens";
  return end.result.finish == FinishReason::kStopString ? "stop_sequence" : "end_turn";
}

Json stop_json(const ChoiceEnd& end) {
  const bool by_string = end.result.finish == FinishReason::kStopString && end.finish == "stop";
  return json_object(
      {{"stop_reason", json_text(stop_reason(end))},
       {"stop_sequence", by_string ? json_text(end.result.stop_string) : json_null()}});
}

Json message_json(const Frame& frame, Json content, Json usage) {
  return json_object({{"id", json_text(frame.id)},
                      {"type", json_text("message")},
                      {"role", json_text("assistant")},
                      {"model", json_text(frame.request.model)},
                      {"content", std::move(content)},
                      {"stop_reason", json_null()},
                      {"stop_sequence", json_null()},
                      {"usage", std::move(usage)}});
}

Json input_json(const std::string& arguments) {
  auto parsed = parse_json(arguments);
  return parsed && parsed->is(JsonKind::kObject) ? *std::move(parsed) : Json::object();
}

Json block_json(const BlockListener::Block& block) {
  switch (block.kind) {
    case Kind::kThinking:
      return json_object({{"type", json_text("thinking")},
                          {"thinking", json_text(block.text)},
                          {"signature", json_text(kSignature)}});
    case Kind::kText:
      return json_object({{"type", json_text("text")}, {"text", json_text(block.text)}});
    case Kind::kCall:
    case Kind::kCustomCall:
      break;
  }
  Json input = block.kind == Kind::kCall ? input_json(block.text)
                                         : json_object({{kCustomArgument, json_text(block.text)}});
  return json_object({{"type", json_text("tool_use")},
                      {"id", json_text(new_id("toolu_"))},
                      {"name", json_text(block.name)},
                      {"input", std::move(input)}});
}

class WholeMessage final : public BlockListener {
 public:
  explicit WholeMessage(const Frame& frame) : BlockListener(frame.request.tools), frame_(frame) {}
  void on_prefill(int, int) override {}
  Json take() {
    const auto n_output = static_cast<int>(end_.result.tokens.size());
    Json out = message_json(frame_, std::move(content_),
                            usage_json(frame_, end_.result.cached_tokens, n_output));
    const Json stop = stop_json(end_);
    for (std::size_t i = 0; i < stop.keys.size(); ++i) out.set(stop.keys[i], stop.items[i]);
    out.set("lily", notes_json(frame_.request.notes, end_.result));
    return out;
  }

 private:
  void open(const Block&) override {}
  void add(const Block&, const std::string&) override {}
  void close(const Block& block, bool) override { content_.items.push_back(block_json(block)); }
  void end(ChoiceEnd end) override {
    frame_.service.metrics.observe_answer(end.result);
    end_ = std::move(end);
  }

  const Frame& frame_;
  Json content_ = Json::array();
  ChoiceEnd end_;
};

class MessageEvents final : public BlockListener {
 public:
  MessageEvents(const Frame& frame, EventStream& stream)
      : BlockListener(frame.request.tools), frame_(frame), stream_(stream) {}

  // The first call tells how much was there already, which the first event has to say.
  void on_prefill(int done, int) override { start(done); }

 private:
  void start(int n_cached) {
    if (started_) return;
    started_ = true;
    n_cached_ = n_cached;
    Json message = message_json(frame_, Json::array(), usage_json(frame_, n_cached, 1));
    send("message_start",
         json_object({{"type", json_text("message_start")}, {"message", std::move(message)}}));
  }

  void send(const char* event, const Json& data) { stream_.send(dump_json(data), event); }

  void open(const Block& block) override {
    Json begun = block_json(block);
    if (block.kind == Kind::kThinking) begun.set("signature", json_text(""));
    if (block.kind == Kind::kCustomCall) begun.set("input", Json::object());
    send("content_block_start", json_object({{"type", json_text("content_block_start")},
                                             {"index", json_int(block.index)},
                                             {"content_block", std::move(begun)}}));
  }

  void send_delta(int index, const char* type, const char* key, const std::string& text) {
    Json delta = json_object({{"type", json_text(type)}, {key, json_text(text)}});
    send("content_block_delta", json_object({{"type", json_text("content_block_delta")},
                                             {"index", json_int(index)},
                                             {"delta", std::move(delta)}}));
  }

  void add(const Block& block, const std::string& text) override {
    if (block.kind == Kind::kThinking)
      return send_delta(block.index, "thinking_delta", "thinking", text);
    if (block.kind == Kind::kText) return send_delta(block.index, "text_delta", "text", text);
    if (block.kind == Kind::kCall)
      return send_delta(block.index, "input_json_delta", "partial_json", text);
    send_delta(block.index, "input_json_delta", "partial_json",
               dump_json(json_object({{kCustomArgument, json_text(text)}})));
  }

  void close(const Block& block, bool) override {
    if (block.kind == Kind::kThinking)
      send_delta(block.index, "signature_delta", "signature", kSignature);
    send("content_block_stop", json_object({{"type", json_text("content_block_stop")},
                                            {"index", json_int(block.index)}}));
  }

  void end(ChoiceEnd end) override {
    frame_.service.metrics.observe_answer(end.result);
    start(end.result.cached_tokens);
    const auto n_output = static_cast<int>(end.result.tokens.size());
    send("message_delta", json_object({{"type", json_text("message_delta")},
                                       {"delta", stop_json(end)},
                                       {"usage", usage_json(frame_, n_cached_, n_output)},
                                       {"lily", notes_json(frame_.request.notes, end.result)}}));
    send("message_stop", json_object({{"type", json_text("message_stop")}}));
  }

  const Frame& frame_;
  EventStream& stream_;
  bool started_ = false;
  int n_cached_ = 0;
};

Result<void> reply_whole(const Frame& frame, HttpExchange& exchange, Answer& answer) {
  WholeMessage message(frame);
  LILY_TRY(const auto end,
           run_answer(exchange, answer, message, [] { return std::chrono::milliseconds(60'000); }));
  if (end == RunEnd::kDone) exchange.reply({.body = dump_json(message.take())});
  return {};
}

Result<void> reply_stream(const Frame& frame, HttpExchange& exchange, Answer& answer) {
  EventStream stream(exchange);
  MessageEvents events(frame, stream);
  stream.begin();
  const auto end = run_answer(exchange, answer, events, [&] { return stream.keep_alive(); });
  if (!end)
    stream.send(error_body(stream_error(frame.service, end.error()), Dialect::kAnthropic), "error");
  stream.end();
  return {};
}

}  // namespace

Result<void> messages(Service& service, HttpExchange& exchange, const Json& body) {
  LILY_TRY(MessagesRequest request, read_messages_request(service, body, MessagesUse::kAnswer));
  request.wish.want_progress = request.wish.stream;
  LILY_TRY(auto plan, plan_chat(service, request.conversation, request.tools, request.wish));
  if (plan.over_context) {
    exchange.reply(error_reply(*plan.over_context, Dialect::kAnthropic));
    return {};
  }
  request.notes.clamped = std::move(plan.clamped);
  const int n_prompt = static_cast<int>(plan.spec.prompt.tokens.size());
  const Frame frame{service, request, n_prompt, n_prompt - plan.spec.prompt.turn_start};
  LILY_TRY(const auto answer, Answer::start(service.scheduler, std::move(plan.spec)));
  if (request.wish.stream) return reply_stream(frame, exchange, *answer);
  return reply_whole(frame, exchange, *answer);
}

Result<void> count_tokens(Service& service, HttpExchange& exchange, const Json& body) {
  LILY_TRY(const MessagesRequest request,
           read_messages_request(service, body, MessagesUse::kCount));
  LILY_TRY(const ChatPrompt prompt, encode_chat(service.engine.tokenizer(), request.conversation));
  exchange.reply(
      {.body = dump_json(json_object(
           {{"input_tokens", json_int(static_cast<std::int64_t>(prompt.tokens.size()))}}))});
  return {};
}

}  // namespace lily::server
