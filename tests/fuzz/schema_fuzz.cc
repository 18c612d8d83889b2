// A JSON schema and, behind the first zero byte, which of the tokens that it lets through is written each time. Whatever passes the check is made a
// grammar of in bounded time, and where an answer may end it is JSON.
#include <cstdint>
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

std::vector<TokenId> members(const std::vector<std::uint32_t>& bits) {
  std::vector<TokenId> out;
  for (TokenId id = 0; id < tokenizer().n_ids(); ++id) {
    if ((bits[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1u) != 0) out.push_back(id);
  }
  return out;
}

void write_answer(TokenConstraint& constraint, std::string_view picks) {
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(tokenizer().n_ids() + 31) / 32);
  std::string text;
  for (const char pick : picks.substr(0, 48)) {
    constraint.allowed(bits);
    auto tokens = members(bits);
    if (tokens.empty()) return;  // Nothing fits; the engine says so.
    if (tokens.front() == kEnd) {
      // Halves of pairs may be spelt out, which is JSON of a kind that is not read here.
      if (text.find("\\u") == std::string::npos && !parse_json(text)) std::abort();
      tokens.erase(tokens.begin());
    }
    if (tokens.empty()) return;
    const TokenId token = tokens[static_cast<unsigned char>(pick) * tokens.size() / 256];
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
  if (const auto again = check_schema(*checked, "schema"); !again || dump_json(*again) != dump_json(*checked)) std::abort();
  const auto compiled = grammars.compile(*checked);
  if (!compiled) return check_error(compiled.error()), 0;
  write_answer(*(*compiled)(), both.substr(std::min(border + 1, both.size())));
  return 0;
}
