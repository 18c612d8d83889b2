// A table, and the way of a request through it: caller, key, path, method, body, handler.
#include "server/routes.h"

#include <algorithm>
#include <array>
#include <exception>

#include "base/log.h"
#include "server/chat_completions.h"
#include "server/completions.h"
#include "server/json_build.h"
#include "server/messages.h"
#include "server/page.h"
#include "server/responses.h"
#include "server/small_routes.h"

namespace lily::server {
namespace {

using Stream = Result<void> (*)(Service&, HttpExchange&, const Json&);

template <Result<HttpReply> (*kPage)(const Service&, const Json&)>
Result<void> page(Service& service, HttpExchange& exchange, const Json& body) {
  LILY_TRY(const HttpReply reply, kPage(service, body));
  exchange.reply(reply);
  return {};
}

constexpr std::string_view kModelPrefix = "/v1/models/";

}  // namespace

struct Routes::Route {
  std::string_view path;
  Stream post;          // nullptr: only GET.
  bool open = false;    // Without a key.
  bool prefix = false;  // The path goes on.
};

const Routes::Route* Routes::find(std::string_view path) {
  static constexpr std::array kRoutes{
      Route{"/v1/chat/completions", chat_completions},
      Route{"/v1/completions", completions},
      Route{"/v1/responses", responses},
      Route{"/v1/messages", messages},
      Route{"/v1/messages/count_tokens", count_tokens},
      Route{"/v1/models", nullptr},
      Route{kModelPrefix, nullptr, false, true},
      Route{"/tokenize", page<tokenize>},
      Route{"/detokenize", page<detokenize>},
      Route{"/apply-template", apply_template},
      Route{"/metrics", nullptr},
      Route{"/version", nullptr},
      Route{"/openapi.json", nullptr, true},
      Route{"/health", nullptr, true},
      Route{"/ready", nullptr, true},
      Route{"/", nullptr, true},
      Route{"/page.css", nullptr, true},
      Route{"/page.js", nullptr, true},
  };
  const auto at = std::find_if(kRoutes.begin(), kRoutes.end(), [&](const Route& route) {
    return route.prefix ? path.starts_with(route.path) && path.size() > route.path.size()
                        : path == route.path;
  });
  return at == kRoutes.end() ? nullptr : &*at;
}

namespace {

Dialect dialect_of(const HttpHead& head) {
  const bool anthropic =
      head.path.starts_with("/v1/messages") || head.find("anthropic-version") != nullptr;
  return anthropic ? Dialect::kAnthropic : Dialect::kOpenAi;
}

ApiError wrong_method(const HttpHead& head, bool posts) {
  return {405, "method_not_allowed", "",
          head.method + " " + head.path + ": expected " + (posts ? "POST" : "GET")};
}

HttpReply preflight_reply() {
  return {.status = 204, .body = {}, .content_type = {}};
}

// Never the text of a prompt.
void log_request(const HttpExchange& exchange, Clock::time_point begun) {
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun);
  log_debug(exchange.head().method + " " + exchange.head().path + ": " +
            std::to_string(exchange.status()) + " after " + std::to_string(took.count()) + " ms");
}

}  // namespace

HttpReply Routes::fault_reply(const HttpFault& fault) {
  return error_reply(api_error(fault), Dialect::kOpenAi);
}

void Routes::answer(HttpExchange& exchange) {
  const auto begun = Clock::now();
  // Under both names that clients look for when something has to be reported.
  const std::string id = new_id("req_");
  exchange.add_header("x-request-id", id);
  exchange.add_header("request-id", id);
  std::optional<ApiError> error;
  try {
    error = dispatch(exchange);
  } catch (const std::exception& failure) {
    error =
        ApiError{500, "server_error", "", std::string("a fault of the server: ") + failure.what()};
    log_warning(exchange.head().path + ": " + failure.what());
  }
  if (error && exchange.status() == 0)
    exchange.reply(error_reply(*error, dialect_of(exchange.head())));
  // A stream that failed half-way has no proper end: the connection closes on it.
  if (exchange.status() != 0 && !exchange.is_done()) exchange.give_up();
  const Route* route = find(exchange.head().path);
  service_.metrics.count_request(route == nullptr ? "none" : std::string(route->path),
                                 exchange.status());
  log_request(exchange, begun);
}

std::optional<ApiError> Routes::check(const HttpHead& head) const {
  if (auto refused = gate_.check_caller(head)) return refused;
  const Route* route = find(head.path);
  if (route == nullptr || !route->open) {
    if (auto refused = gate_.check_key(head)) return refused;
  }
  if (route != nullptr) return {};
  return ApiError{404, "not_found", "", head.path.substr(0, 200) + ": there is no such path"};
}

std::optional<ApiError> Routes::dispatch(HttpExchange& exchange) {
  const HttpHead& head = exchange.head();
  for (auto& [name, value] : gate_.cors_headers(head)) exchange.add_header(name, value);
  if (head.method == "OPTIONS") {
    exchange.reply(preflight_reply());
    return {};
  }
  if (auto refused = check(head)) return refused;
  const Route& route = *find(head.path);
  const bool reads = head.method == "GET" || head.method == "HEAD";
  if (route.post != nullptr ? head.method != "POST" : !reads) {
    exchange.add_header("Allow", route.post != nullptr ? "POST" : "GET");
    return wrong_method(head, route.post != nullptr);
  }
  if (route.post != nullptr) return post(exchange, route);
  auto reply = get(head);
  if (!reply) return api_error(reply.error());
  exchange.reply(*reply);
  return {};
}

std::optional<ApiError> Routes::post(HttpExchange& exchange, const Route& route) {
  std::string text;
  if (const auto fault = exchange.read_body(text)) return api_error(*fault);
  auto body = parse_json(text);
  if (!body) {
    ApiError error = api_error(body.error());
    error.status = 400;  // A body whose size is fine can still be nested too deeply.
    error.message = "the body: " + error.message;
    return error;
  }
  text = {};
  text.shrink_to_fit();
  const auto done = route.post(service_, exchange, *body);
  if (!done) return api_error(done.error());
  return {};
}

Result<HttpReply> Routes::get(const HttpHead& head) const {
  const std::string_view path = head.path;
  if (path == "/health") return show_health();
  if (path == "/ready") return show_readiness(service_);
  if (path == "/version") return show_version(service_);
  if (path == "/v1/models") return list_models(service_);
  if (path.starts_with(kModelPrefix)) return show_model(service_, path.substr(kModelPrefix.size()));
  if (path == "/metrics") {
    return HttpReply{.body = service_.metrics.text(service_.scheduler.stats(), n_connections_()),
                     .content_type = "text/plain; version=0.0.4; charset=utf-8"};
  }
  return page_file(path);
}

}  // namespace lily::server
