// Any bytes as tokenizer.json and, behind the first zero byte, tokenizer_config.json: refused, or a tokenizer whose laws hold on a little text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace {

constexpr std::string_view kText =
    "It's 12 caf\u00e9s: e\u0301 \u6c34\u706b\U0001F525\r\n  <end> aabb abab\xFF\xE6\xB0 \t\n";

void expect(bool condition) {
  if (!condition) std::abort();
}

void exercise(const lily::Tokenizer& tokenizer) {
  const std::vector<lily::TokenId> ids = tokenizer.encode(kText);
  lily::StreamDecoder stream(tokenizer);
  std::string streamed;
  for (const lily::TokenId id : ids) {
    expect(id >= 0 && id < tokenizer.n_ids());
    streamed += stream.push(id);
  }
  expect(streamed + stream.finish() == tokenizer.decode(ids));
  const std::vector<lily::TokenId> plain = tokenizer.encode_plain(kText);
  for (const lily::TokenId id : plain) expect(!tokenizer.is_added(id));
  expect(tokenizer.encode_plain(tokenizer.decode(plain)) == plain);
  const lily::TextPiece pieces[] = {{kText.substr(0, 20), true}, {kText.substr(20), true}};
  expect(tokenizer.encode_pieces(pieces) == ids);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lily::set_log_level(lily::LogLevel::kError);
  const std::string_view both(reinterpret_cast<const char*>(data), size);
  const auto border = both.find('\0');
  const auto config = border == std::string_view::npos ? std::string_view() : both.substr(border + 1);
  const auto tokenizer = lily::Tokenizer::parse(both.substr(0, border), config);
  if (tokenizer) exercise(*tokenizer);
  return 0;
}
