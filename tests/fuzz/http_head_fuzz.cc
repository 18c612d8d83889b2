// Any bytes as the head of a request, and as a body in chunks: cut into pieces, a body comes out as
// the whole does.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/chunked_body.h"
#include "server/http_head.h"

namespace {

using lily::server::ChunkedBody;

struct Fed {
  ChunkedBody::State state = ChunkedBody::State::kMore;
  std::string out;
  std::size_t n_left = 0;
};

Fed feed(std::string_view text, std::size_t piece) {
  ChunkedBody body;
  Fed fed;
  while (!text.empty() && fed.state == ChunkedBody::State::kMore) {
    std::string_view part = text.substr(0, piece);
    text.remove_prefix(part.size());
    fed.state = body.feed(part, fed.out);
    fed.n_left = part.size() + text.size();
  }
  return fed;
}

void check_head(std::string_view text) {
  lily::server::HttpHead head;
  const std::size_t size = lily::server::head_size(text);
  if (lily::server::parse_http_head(text.substr(0, size == 0 ? text.size() : size), head)) return;
  if (head.path.empty() || head.path.front() != '/') std::abort();
  for (const auto& [name, value] : head.headers) {
    if (name.empty() || value.find('\n') != std::string::npos || head.find(name) == nullptr) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  check_head(text);
  const Fed whole = feed(text, text.size());
  const Fed pieces = feed(text, 1 + data[0] % 16);
  if (whole.state != pieces.state) std::abort();
  if (whole.state == ChunkedBody::State::kBroken) return 0;
  if (whole.out != pieces.out || whole.n_left != pieces.n_left) std::abort();
  return 0;
}
