// The older door: text or tokens in, text out.
#include "server/completions.h"

#include <cmath>
#include <limits>

#include "server/door_request.h"
#include "server/json_build.h"
#include "server/limits.h"
#include "server/run_answer.h"
#include "server/stream_end.h"
#include "server/token_json.h"
#include "text/chat_parse.h"

namespace lily::server {
namespace {

struct CompletionRequest : DoorRequest {
  std::vector<TokenId> prompt;
  bool echo = false;
  bool include_usage = false;
};

Result<std::vector<TokenId>> read_ids(const Service& service, const Json& list) {
  const int vocab = service.engine.tokenizer().n_ids();
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const std::string place = item_place("prompt", i);
    LILY_TRY(const auto id, read_integer(place, list.items[i]));
    if (id < 0 || id >= vocab) {
      return Error{ErrorCode::kInvalidArgument, place + ": " + std::to_string(id) +
                                                    ", expected 0 .. " + std::to_string(vocab - 1)};
    }
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

// A string, a list of one string, or a list of token ids. Several prompts in one request are
// refused.
Result<std::vector<TokenId>> read_prompt(const Service& service, Fields& fields) {
  const Json* prompt = fields.take("prompt");
  if (prompt == nullptr) return Error{ErrorCode::kInvalidArgument, "prompt: missing"};
  if (prompt->is(JsonKind::kArray) && prompt->items.size() == 1 &&
      !prompt->items[0].is(JsonKind::kInteger)) {
    prompt = &prompt->items[0];
  }
  std::vector<TokenId> ids;
  if (prompt->is(JsonKind::kString)) {
    ids = service.engine.tokenizer().encode(prompt->text);
  } else if (!prompt->is(JsonKind::kArray)) {
    return wrong_kind("prompt", *prompt, "a string or a list of token ids");
  } else if (!prompt->items.empty() && !prompt->items[0].is(JsonKind::kInteger)) {
    return Error{ErrorCode::kUnsupported, "prompt: " + std::to_string(prompt->items.size()) +
                                              " prompts, one in a request is served"};
  } else {
    LILY_TRY(ids, read_ids(service, *prompt));
  }
  if (ids.empty())
    return Error{ErrorCode::kInvalidArgument, "prompt: it is empty, expected at least one token"};
  return ids;
}

Result<void> read_stream(Fields& fields, CompletionRequest& out) {
  LILY_TRY(const auto stream, fields.boolean("stream"));
  out.wish.stream = stream.value_or(false);
  const Json* options = fields.take("stream_options");
  if (options == nullptr) return {};
  if (!options->is(JsonKind::kObject)) return wrong_kind("stream_options", *options, "an object");
  Fields inner(*options, "stream_options.");
  LILY_TRY(const auto usage, inner.boolean("include_usage"));
  out.include_usage = usage.value_or(false);
  return {};
}

Result<void> refuse_unserved(Fields& fields) {
  LILY_RETURN_IF_ERROR(
      fields.refuse_unless("suffix", {"\"\""}, "filling in between is not served here"));
  LILY_RETURN_IF_ERROR(
      fields.refuse_unless("best_of", {"1"}, "only 1 is served; n gives several choices"));
  return fields.refuse_unless("response_format", {R"({"type": "text"})"},
                              "only /v1/chat/completions has it");
}

Result<CompletionRequest> read_request(const Service& service, const Json& body) {
  LILY_RETURN_IF_ERROR(check_body(body));
  constexpr double kMostTokens = 1e9;
  constexpr int kDefaultTokens = 16;  // As the API has always had it.
  CompletionRequest out;
  Fields fields(body);
  LILY_RETURN_IF_ERROR(refuse_unserved(fields));
  LILY_RETURN_IF_ERROR(read_common(service, fields, out));
  LILY_TRY(const auto most, fields.integer("max_tokens", {1, kMostTokens, "1 or more"}));
  out.wish.max_tokens = most.value_or(kDefaultTokens);
  LILY_TRY(out.wish.stop, read_stop(fields, "stop"));
  LILY_TRY(const auto n, fields.integer("n", {1, kMaxChoices, "1 .. 16"}));
  out.wish.n = static_cast<int>(n.value_or(1));
  LILY_TRY(const auto n_top, fields.integer("logprobs", {0, kMaxTopLogProbs, "0 .. 20"}));
  out.wish.want_tokens = n_top.has_value();
  out.wish.sampling.n_top = static_cast<int>(n_top.value_or(0));
  LILY_TRY(const auto echo, fields.boolean("echo"));
  out.echo = echo.value_or(false);
  LILY_RETURN_IF_ERROR(read_stream(fields, out));
  LILY_TRY(out.prompt, read_prompt(service, fields));
  fields.ignore("user");
  out.notes.ignored = fields.ignored();
  return out;
}

struct Frame {
  Service& service;
  const CompletionRequest& request;
  std::string echoed;  // The prompt's text, where it is wanted back.
  std::string id = new_id("cmpl-");
  std::int64_t created = seconds_since_1970();

  bool scores_prompt() const { return request.echo && request.wish.want_tokens; }
};

// Nothing predicts the first token of a prompt.
constexpr float kUnpredicted = std::numeric_limits<float>::quiet_NaN();

std::vector<TokenRecord> prompt_records(const std::vector<TokenId>& prompt,
                                        const std::vector<ScoredRow>& rows) {
  std::vector<TokenRecord> out{{prompt.front(), kUnpredicted, {}, {}, false}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out.push_back(
        {prompt[i + 1], rows[i].next_log_prob, rows[i].top_ids, rows[i].top_log_probs, false});
  }
  return out;
}

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. `offset`: bytes of the choice's text
// before its first token, and then behind its last.
Json logprobs_lists(const Tokenizer& tokenizer, const std::vector<TokenRecord>& records,
                    std::size_t& offset) {
  Json tokens = Json::array(), values = Json::array(), tops = Json::array(),
       offsets = Json::array();
  for (const TokenRecord& record : records) {
    const std::string text = tokenizer.token_text(record.token);
    Json top = Json::object();
    for (std::size_t i = 0; i < record.top_ids.size(); ++i) {
      top.set(tokenizer.token_text(record.top_ids[i]), json_real(record.top_log_probs[i]));
    }
    tokens.items.push_back(json_text(text));
    const bool predicted = !std::isnan(record.log_prob);
    values.items.push_back(predicted ? json_real(record.log_prob) : json_null());
    tops.items.push_back(predicted ? std::move(top) : json_null());
    offsets.items.push_back(json_int(static_cast<std::int64_t>(offset)));
    offset += text.size();
  }
  return json_object({{"tokens", std::move(tokens)},
                      {"token_logprobs", std::move(values)},
                      {"top_logprobs", std::move(tops)},
                      {"text_offset", std::move(offsets)}});
}

Json choice_json(const Frame& frame, int index, const std::string& text,
                 const std::vector<TokenRecord>& records, std::size_t& offset,
                 const std::string& finish) {
  const bool tokens = frame.request.wish.want_tokens;
  return json_object(
      {{"index", json_int(index)},
       {"text", json_text(text)},
       {"logprobs",
        tokens ? logprobs_lists(frame.service.engine.tokenizer(), records, offset) : json_null()},
       {"finish_reason", finish.empty() ? json_null() : json_text(finish)}});
}

Json reply_object(const Frame& frame, Json choices) {
  return json_object({{"id", json_text(frame.id)},
                      {"object", json_text("text_completion")},
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
       {"prompt_tokens_details", json_object({{"cached_tokens", json_int(usage.cached_tokens)}})}});
}

std::vector<TokenRecord> all_records(const Frame& frame, const CollectedChoice& choice) {
  if (!frame.scores_prompt()) return choice.tokens;
  auto out = prompt_records(frame.request.prompt, choice.prompt_rows);
  out.insert(out.end(), choice.tokens.begin(), choice.tokens.end());
  return out;
}

Result<void> reply_whole(const Frame& frame, HttpExchange& exchange, Answer& answer) {
  Collector collector(frame.request.wish.n);
  LILY_TRY(const auto end, collect_answer(exchange, answer, collector));
  if (end == RunEnd::kClientLeft) return {};
  Json choices = Json::array();
  Usage usage;
  for (const CollectedChoice& choice : collector.choices()) {
    std::size_t offset = 0;
    choices.items.push_back(choice_json(frame, static_cast<int>(choices.items.size()),
                                        frame.echoed + choice.reply.content,
                                        all_records(frame, choice), offset, choice.end.finish));
    usage.add(choice.end);
    frame.service.metrics.observe_answer(choice.end.result);
  }
  Json reply = reply_object(frame, std::move(choices));
  reply.set("usage", usage_json(usage));
  reply.set("lily", notes_json(frame.request.notes, collector.choices().front().end.result));
  exchange.reply({.body = dump_json(reply)});
  return {};
}

class TextWriter final : public AnswerListener {
 public:
  TextWriter(const Frame& frame, EventStream& stream)
      : frame_(frame),
        stream_(stream),
        records_(static_cast<std::size_t>(frame.request.wish.n)),
        offsets_(records_.size()) {}

  // Where the prompt is scored, it comes with its scores.
  void begin() {
    const bool now = !frame_.echoed.empty() && !frame_.scores_prompt();
    for (int i = 0; i < frame_.request.wish.n && now; ++i) put(i, frame_.echoed, "");
  }
  void on_prompt_scored(int choice, const std::vector<ScoredRow>& rows) override {
    records_[static_cast<std::size_t>(choice)] = prompt_records(frame_.request.prompt, rows);
    put(choice, frame_.echoed, "");
  }
  void on_prefill(int, int) override {}
  void on_token(int choice, TokenRecord record) override {
    records_[static_cast<std::size_t>(choice)].push_back(std::move(record));
  }
  void on_event(int choice, const ReplyEvent& event) override { put(choice, event.text, ""); }
  void on_end(int choice, ChoiceEnd end) override {
    usage_.add(end);
    frame_.service.metrics.observe_answer(end.result);
    notes_ = notes_json(frame_.request.notes, end.result);
    put(choice, "", end.finish);
  }
  void finish() {
    Json last = reply_object(frame_, Json::array());
    if (frame_.request.include_usage) {
      last.set("usage", usage_json(usage_));
      stream_.send(dump_json(last));
    }
    stream_.send("[DONE]");
  }

 private:
  void put(int choice, const std::string& text, const std::string& finish) {
    auto& records = records_[static_cast<std::size_t>(choice)];
    auto& offset = offsets_[static_cast<std::size_t>(choice)];
    Json chunk = reply_object(
        frame_, json_list({choice_json(frame_, choice, text, records, offset, finish)}));
    if (!finish.empty()) chunk.set("lily", notes_);
    stream_.send(dump_json(chunk));
    records.clear();
  }

  const Frame& frame_;
  EventStream& stream_;
  std::vector<std::vector<TokenRecord>> records_;
  std::vector<std::size_t> offsets_;
  Usage usage_;
  Json notes_;
};

Result<void> reply_stream(const Frame& frame, HttpExchange& exchange, Answer& answer) {
  EventStream stream(exchange);
  TextWriter writer(frame, stream);
  stream_chunks(frame.service, exchange, answer, stream, writer);
  return {};
}

}  // namespace

Result<void> completions(Service& service, HttpExchange& exchange, const Json& body) {
  LILY_TRY(CompletionRequest request, read_request(service, body));
  LILY_TRY(auto plan, plan_text(service, request.prompt, request.wish));
  if (plan.over_context) {
    exchange.reply(error_reply(*plan.over_context, Dialect::kOpenAi));
    return {};
  }
  request.notes.clamped = std::move(plan.clamped);
  plan.spec.score_prompt = request.echo && request.wish.want_tokens;
  LILY_TRY(const auto answer, Answer::start(service.scheduler, std::move(plan.spec)));
  const Frame frame{service, request,
                    request.echo ? service.engine.tokenizer().decode(request.prompt) : ""};
  if (request.wish.stream) return reply_stream(frame, exchange, *answer);
  return reply_whole(frame, exchange, *answer);
}

}  // namespace lily::server
