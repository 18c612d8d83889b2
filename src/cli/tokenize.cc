// lily tokenize, lily detokenize: text and token ids, both ways.
#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/model_source.h"
#include "cli/terminal.h"
#include "text/chat_json.h"

namespace lily::cli {
namespace {

constexpr std::size_t kMaxInputBytes = std::size_t{256} << 20;

std::string listed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string out;
  for (const TokenId id : ids)
    out += fmt::format("{}\t{}\n", id, json_text(tokenizer.token_text(id)));
  return out;
}

Error bad_ids(std::string_view found) {
  return {
      ErrorCode::kInvalidArgument,
      fmt::format(R"(ids: {}, expected {{"ids": [...]}} or whole numbers with white space between)",
                  found)};
}

Result<TokenId> read_id(std::string_view word, const Tokenizer& tokenizer) {
  std::int64_t id = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
  if (error != std::errc() || end != word.data() + word.size()) {
    return bad_ids(fmt::format("'{}'", word.substr(0, 40)));
  }
  if (id < 0 || id >= tokenizer.n_ids()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("ids: {}, expected 0 .. {}", id, tokenizer.n_ids() - 1)};
  }
  return static_cast<TokenId>(id);
}

Result<std::vector<TokenId>> ids_of_json(const std::string& text, const Tokenizer& tokenizer) {
  LILY_TRY(const Json json, parse_json(text));
  const Json* list = json.find("ids");
  if (!list || !list->is(JsonKind::kArray)) return bad_ids("no list under \"ids\"");
  std::vector<TokenId> ids;
  for (const Json& item : list->items) {
    if (!item.is(JsonKind::kInteger)) return bad_ids("an item is no whole number");
    LILY_TRY(const TokenId id, read_id(item.text, tokenizer));
    ids.push_back(id);
  }
  return ids;
}

Result<std::vector<TokenId>> ids_of_words(std::string_view text, const Tokenizer& tokenizer) {
  constexpr std::string_view kSpace = " \t\r\n,";
  std::vector<TokenId> ids;
  for (auto at = text.find_first_not_of(kSpace); at != std::string_view::npos;
       at = text.find_first_not_of(kSpace, at)) {
    const auto word = text.substr(at, text.find_first_of(kSpace, at) - at);
    LILY_TRY(const TokenId id, read_id(word, tokenizer));
    ids.push_back(id);
    at += word.size();
  }
  return ids;
}

}  // namespace

Result<int> execute(const TokenizeFlags& flags) {
  LILY_TRY(const auto tokenizer, load_tokenizer(flags.tokenizer));
  LILY_TRY(const auto text, read_stdin(kMaxInputBytes));
  const auto ids = flags.plain ? tokenizer.encode_plain(text) : tokenizer.encode(text);
  print_out(flags.json ? nlohmann::json{{"ids", ids}}.dump() + "\n" : listed(tokenizer, ids));
  return 0;
}

Result<int> execute(const DetokenizeFlags& flags) {
  LILY_TRY(const auto tokenizer, load_tokenizer(flags.tokenizer));
  LILY_TRY(const auto input, read_stdin(kMaxInputBytes));
  const auto first = input.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && input[first] == '{';
  LILY_TRY(const auto ids,
           is_json ? ids_of_json(input, tokenizer) : ids_of_words(input, tokenizer));
  const auto text = tokenizer.decode(ids);
  if (!flags.json) {
    print_out(text);
    return 0;
  }
  const nlohmann::json object = {{"text", text},
                                 {"visible", tokenizer.decode(ids, {.skip_special = true})}};
  print_out(object.dump() + "\n");
  return 0;
}

}  // namespace lily::cli
