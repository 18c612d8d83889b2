// Any bytes as a body in chunks: cut into pieces, it comes out as the whole does, and never longer than what came in.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/chunked_body.h"

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Fed whole = feed(text, text.size());
  const Fed pieces = feed(text, 1 + data[0] % 16);
  if (whole.state != pieces.state || whole.out.size() > text.size()) std::abort();
  if (whole.state == ChunkedBody::State::kBroken) return 0;
  if (whole.out != pieces.out || whole.n_left != pieces.n_left) std::abort();
  return 0;
}
