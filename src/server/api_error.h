// What a request is told when it cannot be answered, in the shape of the door that it came through.
#pragma once

#include <string>

#include "base/result.h"
#include "server/http.h"

namespace lily::server {

enum class Dialect { kOpenAi, kAnthropic };

struct ApiError {
  int status;
  std::string code;   // For programs: "context_length_exceeded".
  std::string param;  // The field at fault; empty: none in particular.
  std::string message;
};

// An error's message begins with its place ("messages[3].content[1]: ..."); that is the param.
ApiError api_error(const Error& error);
ApiError api_error(const HttpFault& fault);
inline ApiError invalid(std::string param, std::string message) {
  return {400, "invalid_argument", std::move(param), std::move(message)};
}

// The body of the reply, or of the event that ends a stream.
std::string error_body(const ApiError& error, Dialect dialect);
HttpReply error_reply(const ApiError& error, Dialect dialect);

}  // namespace lily::server
