// One thread: when conversations are due, which of their requests are under way, and the sums.
#include "measure/server_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "measure/chat_stream.h"
#include "measure/http_client.h"

namespace lily {
namespace {

using Clock = ChatStream::Clock;
using TimePoint = Clock::time_point;
using nlohmann::json;

constexpr std::size_t kMaxModelsBytes = std::size_t{4} << 20, kMaxErrorBytes = 4096;
constexpr int kMaxRetryAfterSeconds = 60;
constexpr std::chrono::milliseconds kStep{20};

constexpr const char* kWords[] = {
    "river",  "stone",  "lamp",   "seven",   "garden", "paper",  "quiet",  "engine",
    "north",  "apple",  "bridge", "cloud",   "window", "silver", "road",   "table",
    "winter", "number", "green",  "clock",   "letter", "island", "bread",  "signal",
    "music",  "forest", "copper", "harbour", "button", "valley", "candle", "mirror"};

double ms_between(TimePoint from, TimePoint to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

TimePoint after(TimePoint from, double seconds) {
  return from + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// "http://host:8080/v1" of what was given.
std::string base_of(std::string url) {
  if (url.find("://") == url.npos) url.insert(0, "http://");
  while (url.ends_with('/')) url.pop_back();
  return url.ends_with("/v1") ? url : url + "/v1";
}

std::vector<std::string> headers_of(const ServerLoadOptions& options) {
  std::vector<std::string> out{"Content-Type: application/json",
                               "Accept: text/event-stream, application/json", "Expect:"};
  if (!options.api_key.empty()) out.push_back("Authorization: Bearer " + options.api_key);
  return out;
}

Result<std::string> first_model(const ServerLoadOptions& options) {
  const std::string url = base_of(options.url) + "/models";
  LILY_TRY(const auto body, http_get({.url = url,
                                      .headers = headers_of(options),
                                      .body = {},
                                      .time_limit = std::chrono::seconds(30)},
                                     kMaxModelsBytes));
  const json list = json::parse(body, nullptr, false);
  const json data = list.is_object() ? list.value("data", json()) : json();
  if (data.is_array() && !data.empty() && data[0].is_object() && data[0].contains("id") &&
      data[0]["id"].is_string()) {
    return data[0]["id"].get<std::string>();
  }
  return Error{ErrorCode::kCorrupt,
               url + R"(: expected {"data": [{"id": "..."}, ...]}; a model can be named instead)"};
}

// Words drawn by (seed, index): no two requests begin alike.
std::shared_ptr<const TraceConversation> drawn_question(const ServerLoadOptions& options,
                                                        int index) {
  std::string text = fmt::format("Question {}.", index);
  for (int i = 0; i < options.prompt_words; ++i) {
    const auto position = static_cast<std::uint64_t>(index) * 65536 + static_cast<std::uint64_t>(i);
    text.append(" ").append(kWords[static_cast<std::size_t>(
        uniform_draw(options.seed, position) * static_cast<float>(std::size(kWords)))]);
  }
  return std::make_shared<TraceConversation>(
      TraceConversation{.name = {},
                        .tools = {},
                        .messages = {json{{"role", "user"}, {"content", text}}.dump()},
                        .requests = {{.n_messages = 1}}});
}

std::string body_of(const ServerLoadOptions& options, const std::string& model,
                    const TraceConversation& conversation, const TraceRequest& request) {
  const std::string tools = conversation.tools.empty() ? "" : R"(,"tools":)" + conversation.tools;
  return fmt::format(
      R"({{"model":{},"messages":{}{},"max_tokens":{},"temperature":0,"stream":true,"stream_options":{{"include_usage":true}}}})",
      json(model).dump(), messages_json(conversation, request), tools, options.max_tokens);
}

// Everything that requests left behind.
struct Tally {
  ServerLoadReport report;
  std::vector<double> first_ms, between_ms, whole_ms, late_ms;
  int done = 0;

  void fail(const std::string& kind, const std::string& what) {
    ServerLoadErrors& errors = report.errors[kind];
    if (errors.count++ == 0) errors.example = what;
  }
  void add(const ChatStream& stream, TimePoint due, TimePoint end) {
    ++report.answered;
    const auto& times = stream.times();
    if (!times.empty()) first_ms.push_back(ms_between(due, times.front()));
    for (std::size_t i = 1; i < times.size(); ++i)
      between_ms.push_back(ms_between(times[i - 1], times[i]));
    whole_ms.push_back(ms_between(due, end));
    report.events += static_cast<std::int64_t>(times.size());
    count(stream);
  }
  void count(const ChatStream& stream) {
    const auto& usage = stream.usage();
    report.without_usage += !usage;
    report.tokens +=
        usage ? usage->completion_tokens : static_cast<std::int64_t>(stream.times().size());
    if (!usage) return;
    report.prompt_tokens += usage->prompt_tokens;
    if (!usage->cached_tokens) return;
    ++report.with_cache;
    report.prompt_tokens_with_cache += usage->prompt_tokens;
    report.cached_tokens += *usage->cached_tokens;
  }
  ServerLoadReport finish(double seconds) {
    report.seconds = seconds;
    report.first_token_ms = percentiles_of(std::move(first_ms));
    report.between_tokens_ms = percentiles_of(std::move(between_ms));
    report.whole_ms = percentiles_of(std::move(whole_ms));
    report.late_ms = percentiles_of(std::move(late_ms));
    return std::move(report);
  }
};

// One client with one conversation: waits, asks, reads, and goes on.
class Client final : public HttpListener {
 public:
  Client(const ServerLoadOptions& options, const std::string& model, HttpClient& http, Tally& tally,
         std::shared_ptr<const TraceConversation> conversation, TimePoint due)
      : options_(options),
        model_(model),
        http_(http),
        tally_(tally),
        conversation_(std::move(conversation)) {
    wait_until(after(due, request().think_s));
    due_ = at_;
  }

  bool over() const { return index_ == conversation_->requests.size(); }
  bool asking() const { return stream_ != nullptr; }
  // Where it is neither over nor asking: when it asks next.
  TimePoint next_time() const { return at_; }
  // No request is begun any more; one that was told to come back may.
  bool between_requests() const { return !asking() && attempts_ == 0; }

  Result<void> ask(TimePoint now) {
    if (attempts_++ == 0) {
      ++tally_.report.started;
      tally_.late_ms.push_back(ms_between(due_, now));
    }
    stream_ = std::make_unique<ChatStream>();
    error_text_.clear();
    const std::string url = base_of(options_.url) + "/chat/completions";
    const auto limit =
        std::chrono::milliseconds(static_cast<std::int64_t>(1000 * options_.time_limit_s));
    return http_.start({.url = url,
                        .headers = headers_of(options_),
                        .body = body_of(options_, model_, *conversation_, request()),
                        .time_limit = limit},
                       *this);
  }

  Result<void> on_bytes(int status, std::string_view bytes) override {
    if (status == 200) return stream_->add(bytes, Clock::now());
    error_text_ += bytes.substr(0, kMaxErrorBytes - std::min(kMaxErrorBytes, error_text_.size()));
    return {};
  }

  void on_end(const HttpEnd& end) override {
    const auto now = Clock::now();
    const auto stream = std::move(stream_);
    if (end.status == 429 && !end.failure && attempts_ <= options_.retries) {
      ++tally_.report.retried;
      return wait_until(after(now, std::min(end.retry_after_s.value_or(1), kMaxRetryAfterSeconds)));
    }
    if (end.failure) {
      tally_.fail(kind_of(*end.failure), end.failure->message);
    } else if (end.status != 200) {
      tally_.fail(fmt::format("status {}", end.status), error_text_);
    } else if (!stream->finished()) {
      tally_.fail("broken reply", "the stream ended without a finish_reason");
    } else {
      tally_.add(*stream, due_, now);
    }
    next(now);
  }

 private:
  static std::string kind_of(const Error& failure) {
    if (failure.code == ErrorCode::kBusy) return "time limit";
    return failure.code == ErrorCode::kIo ? "connection" : "broken reply";
  }
  const TraceRequest& request() const { return conversation_->requests[index_]; }
  void wait_until(TimePoint when) { at_ = when; }
  void next(TimePoint now) {
    ++tally_.done;
    attempts_ = 0;
    if (++index_ == conversation_->requests.size()) return;
    wait_until(after(now, request().think_s));
    due_ = at_;
  }

  const ServerLoadOptions& options_;
  const std::string& model_;
  HttpClient& http_;
  Tally& tally_;
  std::shared_ptr<const TraceConversation> conversation_;
  std::size_t index_ = 0;
  int attempts_ = 0;
  TimePoint at_, due_;
  std::unique_ptr<ChatStream> stream_;
  std::string error_text_;
};

class ServerLoad {
 public:
  ServerLoad(const ServerLoadOptions& options, std::string model, HttpClient& http)
      : options_(options), model_(std::move(model)), http_(http) {
    tally_.report.model = model_;
    next_arrival_ = start_;
  }

  Result<ServerLoadReport> run() {
    while (!cancelled() && !(clients_.empty() && closed())) {
      begin_conversations();
      LILY_RETURN_IF_ERROR(ask_what_is_due());
      LILY_RETURN_IF_ERROR(http_.run(time_to_wait()));
      std::erase_if(clients_, [&](const auto& one) {
        return one->over() || (closed() && one->between_requests());
      });
      if (options_.progress) options_.progress(tally_.done, elapsed());
    }
    for (const auto& client : clients_) tally_.report.under_way += !client->between_requests();
    return tally_.finish(elapsed());
  }

 private:
  double elapsed() const { return ms_between(start_, Clock::now()) / 1000; }
  bool cancelled() const {
    return options_.cancel && options_.cancel->load(std::memory_order_relaxed);
  }
  // Nothing more is begun.
  bool closed() const {
    return (options_.requests > 0 && tally_.report.started >= options_.requests) ||
           (options_.seconds > 0 && elapsed() >= options_.seconds);
  }

  std::shared_ptr<const TraceConversation> next_conversation() {
    const int index = n_conversations_++;
    if (options_.trace.empty()) return drawn_question(options_, index);
    const TraceConversation& recorded =
        options_.trace[static_cast<std::size_t>(index) % options_.trace.size()];
    return {std::shared_ptr<const TraceConversation>(), &recorded};  // The options outlive it.
  }
  bool has_free_client() const { return static_cast<int>(clients_.size()) < options_.clients; }
  void begin_conversations() {
    const auto now = Clock::now();
    while (!closed() && has_free_client() && (options_.rate == 0 || next_arrival_ <= now)) {
      const TimePoint due = options_.rate == 0 ? now : next_arrival_;
      clients_.push_back(
          std::make_unique<Client>(options_, model_, http_, tally_, next_conversation(), due));
      if (options_.rate > 0) next_arrival_ = after(next_arrival_, gap());
    }
  }
  // Between two arrivals.
  double gap() {
    const double draw = uniform_draw(options_.seed, (std::uint64_t{1} << 63) + n_gaps_++);
    return -std::log1p(-draw) / options_.rate;
  }
  Result<void> ask_what_is_due() {
    const auto now = Clock::now();
    for (const auto& client : clients_) {
      if (client->over() || client->asking() || client->next_time() > now) continue;
      if (closed() && client->between_requests()) continue;
      LILY_RETURN_IF_ERROR(client->ask(now));
    }
    return {};
  }
  std::chrono::milliseconds time_to_wait() const {
    auto until = Clock::now() + kStep;
    if (options_.rate > 0 && has_free_client()) until = std::min(until, next_arrival_);
    for (const auto& client : clients_) {
      if (!client->asking()) until = std::min(until, client->next_time());
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    return std::max(left, std::chrono::milliseconds(0));
  }

  const ServerLoadOptions& options_;
  const std::string model_;
  HttpClient& http_;
  Tally tally_;
  const TimePoint start_ = Clock::now();
  TimePoint next_arrival_;
  int n_conversations_ = 0;
  std::uint64_t n_gaps_ = 0;
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace

Result<ServerLoadReport> run_server_load(const ServerLoadOptions& options) {
  if (options.requests == 0 && options.seconds == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "load without an end: expected a number of requests or of seconds"};
  }
  std::string model = options.model;
  if (model.empty()) {
    LILY_TRY(model, first_model(options));
  }
  LILY_TRY(const auto http, HttpClient::create());
  return ServerLoad(options, std::move(model), *http).run();
}

}  // namespace lily
