// A JSON schema and, behind the first zero byte, which of the tokens that it lets through is written each time. Whatever passes the check is made a
// grammar of in bounded time, and where an answer may end it is JSON.
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "server/grammar.h"
#include "server/schema_check.h"
#include "text/tokenizer.h"

namespace {

using namespace lily;
using namespace lily::server;

constexpr TokenId kEnd = 0;  // Some token that is no text of JSON.

void check_error(const Error& error) {
  if (error.message.empty() || http_status(error.code) >= 500) std::abort();
}

const Tokenizer& tokenizer() {
  static const auto loaded = Tokenizer::load(LILY_SOURCE_DIR "/models/pocket/tokenizer.json");
  if (!loaded) std::abort();
  return *loaded;
}

// The token that `pick` of 256 names among those of the mask; none: -1. By words, since this runs 24 times an input.
TokenId picked(const std::vector<std::uint32_t>& bits, unsigned char pick) {
  int n = 0;
  for (const auto word : bits) n += std::popcount(word);
  int skipped = pick * n / 256;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    auto word = bits[i];
    if (skipped >= std::popcount(word)) {
      skipped -= std::popcount(word);
      continue;
    }
    for (; skipped > 0; --skipped) word &= word - 1;
    return static_cast<TokenId>(32 * i) + std::countr_zero(word);
  }
  return -1;
}

// Checking changes nothing more, unless what was written out is over a bound on bytes now or has a backslash of JSON in a pattern.
void check_again(const Json& checked) {
  if (dump_json(checked).find("\\u{5c}") != std::string::npos) return;
  const auto again = check_schema(checked, "schema");
  const auto says = [&](std::string_view what) { return again.error().message.find(what) != std::string::npos; };
  if (again ? dump_json(*again) == dump_json(checked) : says("bytes, expected at most") || says("over 128 KiB of schema")) return;
  std::fprintf(stderr, "%s\n%s\n", again ? dump_json(*again).c_str() : again.error().message.c_str(), dump_json(checked).c_str());
  std::abort();
}

// Halves of pairs may be spelt out, and numbers be larger than a double: JSON of kinds that are not read here.
void check_json(const std::string& text) {
  const auto parsed = parse_json(text);
  if (parsed || text.find("\\u") != std::string::npos || parsed.error().message.find("out of range") != std::string::npos) return;
  std::fprintf(stderr, "%s: %s\n", parsed.error().message.c_str(), text.c_str());
  std::abort();
}

void write_answer(TokenConstraint& constraint, std::string_view picks) {
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(tokenizer().n_ids() + 31) / 32);
  std::string text;
  for (const char pick : picks.substr(0, 24)) {
    constraint.allowed(bits);
    if ((bits[0] & 1u << kEnd) != 0) check_json(text);
    bits[0] &= ~(1u << kEnd);
    const TokenId token = picked(bits, static_cast<unsigned char>(pick));
    if (token < 0) return;  // Nothing fits, or only the end; the engine says so.
    if (!constraint.accept(token)) std::abort();
    text += tokenizer().token_bytes(token);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static GrammarCompiler grammars(tokenizer(), {kEnd});
  const std::string_view both(reinterpret_cast<const char*>(data), size);
  const auto border = std::min(both.find('\0'), both.size());
  const auto schema = parse_json(both.substr(0, border));
  if (!schema) return 0;
  const auto checked = check_schema(*schema, "schema");
  if (!checked) return check_error(checked.error()), 0;
  check_again(*checked);
  const auto compiled = grammars.compile(*checked);
  if (!compiled) return check_error(compiled.error()), 0;
  write_answer(*(*compiled)(), both.substr(std::min(border + 1, both.size())));
  return 0;
}
