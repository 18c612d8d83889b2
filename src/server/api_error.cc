// The shapes of errors, and the words for statuses.
#include "server/api_error.h"

#include <algorithm>
#include <array>

#include "server/json_build.h"

namespace lily::server {
namespace {

struct TypeRow {
  int status;
  const char* open_ai;
  const char* anthropic;
  const char* code;  // Of faults below the API.
};
constexpr std::array kTypes{
    TypeRow{400, "invalid_request_error", "invalid_request_error", "invalid_request"},
    TypeRow{401, "authentication_error", "authentication_error", "invalid_api_key"},
    TypeRow{403, "permission_error", "permission_error", "permission_denied"},
    TypeRow{404, "not_found_error", "not_found_error", "not_found"},
    TypeRow{405, "invalid_request_error", "invalid_request_error", "method_not_allowed"},
    TypeRow{408, "timeout_error", "timeout_error", "request_timeout"},
    TypeRow{413, "invalid_request_error", "request_too_large", "too_large"},
    TypeRow{429, "rate_limit_error", "rate_limit_error", "rate_limit_exceeded"},
    TypeRow{503, "overloaded_error", "overloaded_error", "overloaded"},
};

TypeRow type_of(int status) {
  const auto row = std::find_if(kTypes.begin(), kTypes.end(),
                                [&](const TypeRow& one) { return one.status == status; });
  if (row != kTypes.end()) return *row;
  if (status < 500)
    return {status, "invalid_request_error", "invalid_request_error", "invalid_request"};
  return {status, "server_error", "api_error", "server_error"};
}

// "messages[3].role" of "messages[3].role: missing"; empty where the message begins otherwise.
std::string place_of(std::string_view message) {
  const auto end = message.find(": ");
  if (end == std::string_view::npos) return {};
  const auto place = message.substr(0, end);
  const bool is_path = std::all_of(place.begin(), place.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '[' || c == ']' || c == '$' || c == '-';
  });
  return is_path ? std::string(place) : std::string();
}

}  // namespace

ApiError api_error(const Error& error) {
  return {http_status(error.code), std::string(code_name(error.code)), place_of(error.message),
          error.message};
}

ApiError api_error(const HttpFault& fault) {
  return {fault.status, type_of(fault.status).code, "", fault.message};
}

std::string error_body(const ApiError& error, Dialect dialect) {
  const TypeRow type = type_of(error.status);
  Json inner =
      json_object({{"message", json_text(error.message)},
                   {"type", json_text(dialect == Dialect::kOpenAi ? type.open_ai : type.anthropic)},
                   {"param", error.param.empty() ? json_null() : json_text(error.param)},
                   {"code", json_text(error.code)}});
  if (dialect == Dialect::kOpenAi) return dump_json(json_object({{"error", std::move(inner)}}));
  return dump_json(json_object({{"type", json_text("error")}, {"error", std::move(inner)}}));
}

HttpReply error_reply(const ApiError& error, Dialect dialect) {
  HttpReply reply{.status = error.status, .body = error_body(error, dialect)};
  if (error.status == 429 || error.status == 503) reply.headers.emplace_back("Retry-After", "1");
  if (error.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

}  // namespace lily::server
