// Any bytes as the head of a request: what is taken has a path, and fields that are found by their names.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/http_head.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  lily::server::HttpHead head;
  const std::size_t n_head = lily::server::head_size(text);
  if (const auto fault = lily::server::parse_http_head(text.substr(0, n_head == 0 ? text.size() : n_head), head)) {
    if (fault->status < 400 || fault->message.empty()) std::abort();
    return 0;
  }
  if (head.path.empty() || head.path.front() != '/') std::abort();
  for (const auto& [name, value] : head.headers) {
    if (name.empty() || value.find('\n') != std::string::npos || head.find(name) == nullptr) std::abort();
  }
  return 0;
}
