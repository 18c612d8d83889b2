// The response object, whole or as events that build it.
#include "server/responses.h"

#include "server/api_error.h"
#include "server/block_listener.h"
#include "server/event_stream.h"
#include "server/json_build.h"
#include "server/responses_request.h"
#include "server/run_answer.h"
#include "server/stream_end.h"

namespace lily::server {
namespace {

using Kind = BlockListener::Kind;

struct Frame {
  Service& service;
  const ResponsesRequest& request;
  std::string id = new_id("resp_");
  std::int64_t created = seconds_since_1970();
};

Json response_json(const Frame& frame, const char* status, Json output) {
  Json out = json_object({{"id", json_text(frame.id)},
                          {"object", json_text("response")},
                          {"created_at", json_int(frame.created)},
                          {"status", json_text(status)},
                          {"background", json_bool(false)},
                          {"error", json_null()},
                          {"incomplete_details", json_null()},
                          {"model", json_text(frame.request.model)},
                          {"output", std::move(output)},
                          {"previous_response_id", json_null()},
                          {"service_tier", json_text("default")},
                          {"store", json_bool(false)},
                          {"truncation", json_text("disabled")},
                          {"usage", json_null()}});
  const Json& echoed = frame.request.echoed;
  for (std::size_t i = 0; i < echoed.keys.size(); ++i) out.set(echoed.keys[i], echoed.items[i]);
  return out;
}

Json usage_json(const ChoiceEnd& end) {
  const auto n_output = static_cast<std::int64_t>(end.result.tokens.size());
  return json_object({{"input_tokens", json_int(end.result.prompt_tokens)},
                      {"input_tokens_details",
                       json_object({{"cached_tokens", json_int(end.result.cached_tokens)}})},
                      {"output_tokens", json_int(n_output)},
                      {"output_tokens_details",
                       json_object({{"reasoning_tokens", json_int(end.reasoning_tokens)}})},
                      {"total_tokens", json_int(end.result.prompt_tokens + n_output)}});
}

Json ended_response(const Frame& frame, Json output, const ChoiceEnd& end) {
  const bool cut = end.finish == "length";
  Json out = response_json(frame, cut ? "incomplete" : "completed", std::move(output));
  if (cut) out.set("incomplete_details", json_object({{"reason", json_text("max_output_tokens")}}));
  out.set("usage", usage_json(end));
  out.set("lily", notes_json(frame.request.notes, end.result));
  return out;
}

Json text_part(const std::string& text) {
  return json_object({{"type", json_text("output_text")},
                      {"text", json_text(text)},
                      {"annotations", Json::array()},
                      {"logprobs", Json::array()}});
}

Json thinking_part(const std::string& text) {
  return json_object({{"type", json_text("reasoning_text")}, {"text", json_text(text)}});
}

// The names of one block's item, the same in all its events.
struct ItemNames {
  std::string id, call_id;
};

ItemNames name_item(Kind kind) {
  switch (kind) {
    case Kind::kThinking:
      return {new_id("rs_"), {}};
    case Kind::kText:
      return {new_id("msg_"), {}};
    case Kind::kCall:
      return {new_id("fc_"), new_id("call_")};
    case Kind::kCustomCall:
      return {new_id("ctc_"), new_id("call_")};
  }
  return {};
}

Json call_item(const Frame& frame, const BlockListener::Block& block, const ItemNames& names) {
  const bool custom = block.kind == Kind::kCustomCall;
  Json item = json_object({{"id", json_text(names.id)},
                           {"type", json_text(custom ? "custom_tool_call" : "function_call")},
                           {"call_id", json_text(names.call_id)},
                           {"name", json_text(block.name)},
                           {custom ? "input" : "arguments", json_text(block.text)}});
  const auto space = frame.request.tools.space_of(block.name);
  if (!space.empty()) item.set("namespace", json_text(std::string(space)));
  return item;
}

// `parts`: false while the item has just been added, and its parts are still to come.
Json item_json(const Frame& frame, const BlockListener::Block& block, const ItemNames& names,
               const char* status, bool parts) {
  Json item;
  if (block.kind == Kind::kThinking) {
    item =
        json_object({{"id", json_text(names.id)},
                     {"type", json_text("reasoning")},
                     {"summary", Json::array()},
                     {"content", parts ? json_list({thinking_part(block.text)}) : Json::array()}});
  } else if (block.kind == Kind::kText) {
    item = json_object({{"id", json_text(names.id)},
                        {"type", json_text("message")},
                        {"role", json_text("assistant")},
                        {"content", parts ? json_list({text_part(block.text)}) : Json::array()}});
  } else {
    item = call_item(frame, block, names);
  }
  item.set("status", json_text(status));
  return item;
}

class WholeResponse final : public BlockListener {
 public:
  explicit WholeResponse(const Frame& frame) : BlockListener(frame.request.tools), frame_(frame) {}
  void on_prefill(int, int) override {}
  Json take() { return ended_response(frame_, std::move(output_), end_); }

 private:
  void open(const Block&) override {}
  void add(const Block&, const std::string&) override {}
  void close(const Block& block, bool whole) override {
    output_.items.push_back(
        item_json(frame_, block, name_item(block.kind), whole ? "completed" : "incomplete", true));
  }
  void end(ChoiceEnd end) override {
    frame_.service.metrics.observe_answer(end.result);
    end_ = std::move(end);
  }

  const Frame& frame_;
  Json output_ = Json::array();
  ChoiceEnd end_;
};

class ResponseEvents final : public BlockListener {
 public:
  ResponseEvents(const Frame& frame, EventStream& stream)
      : BlockListener(frame.request.tools), frame_(frame), stream_(stream) {}

  void begin() {
    for (const char* type : {"response.created", "response.in_progress"}) {
      send(type, json_object({{"response", response_json(frame_, "in_progress", Json::array())}}));
    }
  }
  void on_prefill(int, int) override {}

  void fail(const ApiError& error) {
    Json response = response_json(frame_, "failed", std::move(output_));
    response.set("error", json_object({{"code", json_text(error.code)},
                                       {"message", json_text(error.message)}}));
    send("response.failed", json_object({{"response", std::move(response)}}));
  }

 private:
  void send(const char* type, Json data) {
    data.set("type", json_text(type));
    data.set("sequence_number", json_int(n_sent_++));
    stream_.send(dump_json(data), type);
  }

  // Of an event about the block's item.
  Json about(const Block& block) const {
    return json_object(
        {{"item_id", json_text(names_.id)}, {"output_index", json_int(block.index)}});
  }
  Json about_part(const Block& block) const {
    Json data = about(block);
    data.set("content_index", json_int(0));
    return data;
  }
  static bool has_parts(const Block& block) {
    return block.kind == Kind::kThinking || block.kind == Kind::kText;
  }
  static Json part_json(const Block& block, const std::string& text) {
    return block.kind == Kind::kThinking ? thinking_part(text) : text_part(text);
  }

  void open(const Block& block) override {
    names_ = name_item(block.kind);
    send("response.output_item.added",
         json_object({{"output_index", json_int(block.index)},
                      {"item", item_json(frame_, block, names_, "in_progress", false)}}));
    if (!has_parts(block)) return;
    Json data = about_part(block);
    data.set("part", part_json(block, ""));
    send("response.content_part.added", std::move(data));
  }

  void add(const Block& block, const std::string& text) override {
    Json data = has_parts(block) ? about_part(block) : about(block);
    data.set("delta", json_text(text));
    if (block.kind == Kind::kText) data.set("logprobs", Json::array());
    constexpr const char* kTypes[] = {"response.reasoning_text.delta", "response.output_text.delta",
                                      "response.function_call_arguments.delta",
                                      "response.custom_tool_call_input.delta"};
    send(kTypes[static_cast<int>(block.kind)], std::move(data));
  }

  void close(const Block& block, bool whole) override {
    Json data = has_parts(block) ? about_part(block) : about(block);
    constexpr const char* kKeys[] = {"text", "text", "arguments", "input"};
    data.set(kKeys[static_cast<int>(block.kind)], json_text(block.text));
    if (block.kind == Kind::kText) data.set("logprobs", Json::array());
    if (block.kind == Kind::kCall) data.set("name", json_text(block.name));
    constexpr const char* kTypes[] = {"response.reasoning_text.done", "response.output_text.done",
                                      "response.function_call_arguments.done",
                                      "response.custom_tool_call_input.done"};
    send(kTypes[static_cast<int>(block.kind)], std::move(data));
    if (has_parts(block)) {
      Json done = about_part(block);
      done.set("part", part_json(block, block.text));
      send("response.content_part.done", std::move(done));
    }
    Json item = item_json(frame_, block, names_, whole ? "completed" : "incomplete", true);
    output_.items.push_back(item);
    send("response.output_item.done",
         json_object({{"output_index", json_int(block.index)}, {"item", std::move(item)}}));
  }

  void end(ChoiceEnd end) override {
    frame_.service.metrics.observe_answer(end.result);
    const char* type = end.finish == "length" ? "response.incomplete" : "response.completed";
    send(type, json_object({{"response", ended_response(frame_, std::move(output_), end)}}));
  }

  const Frame& frame_;
  EventStream& stream_;
  ItemNames names_;
  Json output_ = Json::array();
  int n_sent_ = 0;
};

Result<void> reply_whole(const Frame& frame, HttpExchange& exchange, Answer& answer) {
  WholeResponse response(frame);
  LILY_TRY(const auto end, run_answer(exchange, answer, response,
                                      [] { return std::chrono::milliseconds(60'000); }));
  if (end == RunEnd::kDone) exchange.reply({.body = dump_json(response.take())});
  return {};
}

Result<void> reply_stream(const Frame& frame, HttpExchange& exchange, Answer& answer) {
  EventStream stream(exchange);
  ResponseEvents events(frame, stream);
  stream.begin();
  events.begin();
  const auto end = run_answer(exchange, answer, events, [&] { return stream.keep_alive(); });
  if (!end) events.fail(stream_error(frame.service, end.error()));
  stream.end();
  return {};
}

}  // namespace

Result<void> responses(Service& service, HttpExchange& exchange, const Json& body) {
  LILY_TRY(ResponsesRequest request, read_responses_request(service, body));
  LILY_TRY(auto plan, plan_chat(service, request.conversation, request.tools, request.wish));
  if (plan.over_context) {
    plan.over_context->param = "input";
    exchange.reply(error_reply(*plan.over_context, Dialect::kOpenAi));
    return {};
  }
  request.notes.clamped = std::move(plan.clamped);
  LILY_TRY(const auto answer, Answer::start(service.scheduler, std::move(plan.spec)));
  const Frame frame{service, request};
  if (request.wish.stream) return reply_stream(frame, exchange, *answer);
  return reply_whole(frame, exchange, *answer);
}

}  // namespace lily::server
