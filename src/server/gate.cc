// Three questions to the head of a request.
#include "server/gate.h"

#include <algorithm>

#include "text/chat_json.h"

namespace lily::server {
namespace {

std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

bool is_address(std::string_view name) {
  return name.starts_with('[') ||
         (!name.empty() && name.find_first_not_of("0123456789.") == std::string_view::npos);
}

bool is_local_name(std::string_view name) {
  return name == "localhost" || name.ends_with(".localhost") || is_address(name);
}

// "http://127.0.0.1:8080" against the Host header of the same request.
bool is_own_origin(std::string_view origin, const HttpHead& head) {
  const auto slashes = origin.find("://");
  const std::string* host = head.find("host");
  return slashes != std::string_view::npos && host != nullptr &&
         origin.substr(slashes + 3) == *host;
}

}  // namespace

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i] ^ other));
  }
  return difference == 0;
}

bool Gate::is_named_origin(std::string_view origin) const {
  return std::any_of(options_.origins.begin(), options_.origins.end(),
                     [&](const std::string& one) { return one == "*" || one == origin; });
}

std::optional<ApiError> Gate::check_caller(const HttpHead& head) const {
  const std::string* host = head.find("host");
  if (host != nullptr && options_.loopback && options_.api_key.empty()) {
    const auto name = without_port(*host);
    if (!is_local_name(name) && name != options_.host) {
      return ApiError{403, "permission_denied", "",
                      "Host: found " + in_quotes(name) +
                          ", expected localhost or an address; --api-key lifts this"};
    }
  }
  const std::string* origin = head.find("origin");
  if (origin == nullptr || is_own_origin(*origin, head) || is_named_origin(*origin)) return {};
  // A browser asks before it sends JSON to another site; what it sends unasked is not JSON.
  const std::string* type = head.find("content-type");
  const bool asked = type != nullptr && type->starts_with("application/json");
  if (head.method != "POST" || asked) return {};
  return ApiError{
      403, "permission_denied", "",
      "Origin: pages of " + in_quotes(*origin) + " may not call; --cors names those that may"};
}

std::optional<ApiError> Gate::check_key(const HttpHead& head) const {
  if (options_.api_key.empty()) return {};
  constexpr std::string_view kBearer = "Bearer ";
  const std::string* bearer = head.find("authorization");
  const std::string* plain = head.find("x-api-key");
  const bool right = (bearer != nullptr && bearer->starts_with(kBearer) &&
                      equal_in_constant_time(std::string_view(*bearer).substr(kBearer.size()),
                                             options_.api_key)) ||
                     (plain != nullptr && equal_in_constant_time(*plain, options_.api_key));
  if (right) return {};
  const bool missing = bearer == nullptr && plain == nullptr;
  return ApiError{401, "invalid_api_key", "",
                  missing ? "a key is needed: Authorization: Bearer KEY" : "the key is wrong"};
}

HttpHeaders Gate::cors_headers(const HttpHead& head) const {
  const std::string* origin = head.find("origin");
  if (origin == nullptr || !is_named_origin(*origin)) return {};
  return {{"Access-Control-Allow-Origin", *origin},
          {"Vary", "Origin"},
          {"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
          {"Access-Control-Allow-Headers", "*, Authorization, Content-Type, x-api-key"},
          {"Access-Control-Max-Age", "600"}};
}

}  // namespace lily::server
