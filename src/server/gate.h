// Who may ask: the key, the name that the server was called by, and pages of other sites.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/api_error.h"
#include "server/http_head.h"

namespace lily::server {

struct GateOptions {
  std::string api_key;               // Empty: none is needed.
  std::vector<std::string> origins;  // Sites whose pages may call: "https://chat.example", or "*".
  std::string host;                  // As --host said it.
  bool loopback = true;
};

class Gate {
 public:
  explicit Gate(GateOptions options) : options_(std::move(options)) {}

  // 403: called by a name that is not this machine's, where no key protects it: a page of another
  // site that had its name point here. Also for a page of another site whose browser did not ask.
  std::optional<ApiError> check_caller(const HttpHead& head) const;
  // 401. The key comes as "Authorization: Bearer KEY" or "x-api-key: KEY".
  std::optional<ApiError> check_key(const HttpHead& head) const;
  // The headers that let a page of a named site read the reply; empty for all others.
  HttpHeaders cors_headers(const HttpHead& head) const;

 private:
  bool is_named_origin(std::string_view origin) const;
  GateOptions options_;
};

// Compares in time that does not depend on where they differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace lily::server
