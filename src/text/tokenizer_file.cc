// Reading tokenizer.json with simdjson (20 MB in some 30 ms); the only file that uses simdjson.
#include "text/tokenizer_file.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "text/unicode.h"

namespace lily {
namespace {

namespace dom = simdjson::dom;

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxAddedTokens = 65536;

Error corrupt(std::string message) {
  return Error{ErrorCode::kCorrupt, std::move(message)};
}
Error unsupported(std::string message) {
  return Error{ErrorCode::kUnsupported, std::move(message)};
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 80;
  return std::string("'")
      .append(repair_utf8(text.substr(0, kShown)))
      .append(text.size() > kShown ? "...'" : "'");
}

// --- JSON access; `where` is the path for messages, "model.vocab" ---

Error no_memory(std::string_view json, const std::string& where) {
  return Error{ErrorCode::kNoMemory,
               where + ": no memory for " + std::to_string(json.size()) + " bytes of JSON"};
}

Result<dom::element> parse_json(dom::parser& parser, std::string_view json,
                                const std::string& where) {
  if (parser.allocate(std::max<std::size_t>(json.size(), 64), kMaxDepth) != simdjson::SUCCESS) {
    return no_memory(json, where);
  }
  if (json.empty()) return corrupt(where + ": the file is empty");
  dom::element root;
  const simdjson::error_code error = parser.parse(json.data(), json.size()).get(root);
  if (error == simdjson::MEMALLOC) return no_memory(json, where);
  if (error != simdjson::SUCCESS)
    return corrupt(where + ": not JSON: " + simdjson::error_message(error));
  return root;
}

const char* type_name(dom::element_type type) {
  switch (type) {
    case dom::element_type::ARRAY:
      return "an array";
    case dom::element_type::OBJECT:
      return "an object";
    case dom::element_type::STRING:
      return "a string";
    case dom::element_type::BOOL:
      return "a boolean";
    case dom::element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

template <typename T>
Result<T> value_as(dom::element element, const std::string& where, const char* expected) {
  T value;
  if (element.get(value) != simdjson::SUCCESS) {
    return corrupt(where + ": found " + type_name(element.type()) + ", expected " + expected);
  }
  return value;
}

// The member, or nothing when it is absent or null.
std::optional<dom::element> member(dom::object object, std::string_view name) {
  dom::element element;
  if (object.at_key(name).get(element) != simdjson::SUCCESS || element.is_null())
    return std::nullopt;
  return element;
}

template <typename T>
Result<T> required(dom::object object, std::string_view name, const std::string& where,
                   const char* expected) {
  const auto element = member(object, name);
  const std::string path = where.empty() ? std::string(name) : where + "." + std::string(name);
  if (!element) return corrupt(path + ": missing, expected " + expected);
  return value_as<T>(*element, path, expected);
}

Result<bool> flag(dom::object object, std::string_view name, const std::string& where,
                  bool otherwise) {
  const auto element = member(object, name);
  if (!element) return otherwise;
  return value_as<bool>(*element, where + "." + std::string(name), "a boolean");
}

Result<void> refuse_flag(dom::object object, std::string_view name, const std::string& where,
                         bool refused, bool otherwise) {
  LILY_TRY(const bool value, flag(object, name, where, otherwise));
  if (value != refused) return {};
  return unsupported(where + "." + std::string(name) + (refused ? ": true" : ": false") +
                     " is not supported");
}

Result<TokenId> token_id(dom::element element, const std::string& where) {
  LILY_TRY(const auto id, value_as<std::int64_t>(element, where, "a token id"));
  if (id < 0 || id >= kMaxTokenIds) {
    return corrupt(where + ": id " + std::to_string(id) + ", expected 0 to " +
                   std::to_string(kMaxTokenIds - 1));
  }
  return static_cast<TokenId>(id);
}

Result<void> expect_type(dom::object object, const std::string& where, std::string_view expected) {
  LILY_TRY(const auto type, required<std::string_view>(object, "type", where, "a string"));
  if (type == expected) return {};
  return unsupported(where + ": type " + in_quotes(type) + " is not supported, expected '" +
                     std::string(expected) + "'");
}

// --- The alphabet in which byte-level vocabularies are written: a printable character per byte ---

class ByteAlphabet {
 public:
  ByteAlphabet() {
    byte_of_.fill(-1);
    std::uint32_t next = 256;  // Bytes that print badly take the code points from here on.
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
      byte_of_[printable ? byte : next++] = static_cast<std::int16_t>(byte);
    }
  }

  // Appends the bytes that valid UTF-8 stands for; false: a character is not of the alphabet.
  bool append(std::string_view text, std::string& out) const {
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Char c = decode_valid_utf8(text.data() + at);
      if (c.code_point >= byte_of_.size() || byte_of_[c.code_point] < 0) return false;
      out += static_cast<char>(byte_of_[c.code_point]);
      at += c.size;
    }
    return true;
  }

 private:
  std::array<std::int16_t, 256 + 68> byte_of_;
};

// --- Added tokens ---

Result<AddedToken> read_added(dom::object object, TokenId id, const std::string& where) {
  AddedToken token;
  token.id = id;
  LILY_TRY(const auto spelling, required<std::string_view>(object, "content", where, "a string"));
  if (spelling.empty()) return corrupt(where + ".content: empty, expected a token's spelling");
  token.spelling = spelling;
  LILY_TRY(token.special, flag(object, "special", where, false));
  for (const char* name : {"single_word", "lstrip", "rstrip"}) {
    LILY_RETURN_IF_ERROR(refuse_flag(object, name, where, true, false));
  }
  LILY_RETURN_IF_ERROR(refuse_flag(object, "normalized", where, true, !token.special));
  return token;
}

Result<void> read_added_tokens(dom::object root, std::vector<AddedToken>& added) {
  const auto element = member(root, "added_tokens");
  if (!element) return {};
  LILY_TRY(const auto list, value_as<dom::array>(*element, "added_tokens", "an array"));
  for (const dom::element item : list) {
    const std::string where = "added_tokens[" + std::to_string(added.size()) + "]";
    LILY_TRY(const auto object, value_as<dom::object>(item, where, "an object"));
    LILY_TRY(const auto id_value, required<dom::element>(object, "id", where, "a token id"));
    LILY_TRY(const TokenId id, token_id(id_value, where + ".id"));
    LILY_TRY(added.emplace_back(), read_added(object, id, where));
    if (added.size() > kMaxAddedTokens)
      return corrupt("added_tokens: more than " + std::to_string(kMaxAddedTokens));
  }
  return {};
}

// Tokens of tokenizer_config.json whose ids tokenizer.json does not list.
Result<void> complete_added_tokens(std::string_view json, std::vector<AddedToken>& added) {
  if (json.empty()) return {};
  dom::parser parser;
  LILY_TRY(const dom::element root, parse_json(parser, json, "tokenizer_config.json"));
  LILY_TRY(const auto config, value_as<dom::object>(root, "tokenizer_config.json", "an object"));
  const auto element = member(config, "added_tokens_decoder");
  if (!element) return {};
  LILY_TRY(const auto decoder,
           value_as<dom::object>(*element, "added_tokens_decoder", "an object"));
  const AddedTokens known(added);
  for (const auto& [key, value] : decoder) {
    const std::string where = "added_tokens_decoder." + in_quotes(key);
    TokenId id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= kMaxTokenIds) {
      return corrupt(where + ": expected a token id from 0 to " + std::to_string(kMaxTokenIds - 1));
    }
    LILY_TRY(const auto object, value_as<dom::object>(value, where, "an object"));
    LILY_TRY(AddedToken token, read_added(object, id, where));
    const AddedToken* listed = known.by_id(id);
    if (listed == nullptr) {
      added.push_back(std::move(token));
    } else if (listed->spelling != token.spelling) {
      return corrupt(where + ": " + in_quotes(token.spelling) + ", but tokenizer.json has " +
                     in_quotes(listed->spelling));
    }
    if (added.size() > kMaxAddedTokens)
      return corrupt("added tokens: more than " + std::to_string(kMaxAddedTokens));
  }
  return {};
}

Result<void> check_distinct(std::vector<AddedToken> added) {
  const auto by_id = [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; };
  const auto by_spelling = [](const AddedToken& a, const AddedToken& b) {
    return a.spelling < b.spelling;
  };
  std::sort(added.begin(), added.end(), by_id);
  for (std::size_t i = 1; i < added.size(); ++i) {
    if (added[i - 1].id == added[i].id)
      return corrupt("added tokens: id " + std::to_string(added[i].id) + " occurs twice");
  }
  std::sort(added.begin(), added.end(), by_spelling);
  for (std::size_t i = 1; i < added.size(); ++i) {
    if (added[i - 1].spelling == added[i].spelling) {
      return corrupt("added tokens: " + in_quotes(added[i].spelling) + " occurs twice");
    }
  }
  return {};
}

// --- Vocabulary and merges ---

// An added token must not be a base token under another id: which id its text gets would be a
// matter of luck.
Result<void> check_added_apart(const std::vector<AddedToken>& added, const Vocab& vocab,
                               const ByteAlphabet& alphabet) {
  std::string bytes;
  for (const AddedToken& token : added) {
    bytes.clear();
    if (!alphabet.append(token.spelling, bytes)) continue;
    const TokenId base = vocab.find(bytes);
    if (base == kNoToken) continue;
    return corrupt("added tokens: " + in_quotes(token.spelling) + ", id " +
                   std::to_string(token.id) + ", is in the vocabulary as id " +
                   std::to_string(base));
  }
  return {};
}

// The vocabulary's keys by id, as written. An added token that the vocabulary lists too is left to
// the added ones.
Result<std::vector<std::string_view>> keys_by_id(dom::object vocab, const AddedTokens& added) {
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : vocab) {
    TokenId id = 0;
    std::int64_t number = 0;
    if (value.get(number) == simdjson::SUCCESS && number >= 0 && number < kMaxTokenIds) {
      id = static_cast<TokenId>(number);
    } else {
      LILY_TRY(id, token_id(value, "model.vocab." + in_quotes(key)));
    }
    if (key.empty()) return corrupt("model.vocab: empty token, id " + std::to_string(id));
    if (const AddedToken* token = added.by_id(id)) {
      if (token->spelling == key) continue;
      return corrupt("model.vocab: id " + std::to_string(id) + " is " + in_quotes(key) +
                     " and the added token " + in_quotes(token->spelling));
    }
    const auto index = static_cast<std::size_t>(id);
    if (index >= keys.size()) keys.resize(index + 1);
    if (!keys[index].empty()) {
      return corrupt("model.vocab: id " + std::to_string(id) + " is both " +
                     in_quotes(keys[index]) + " and " + in_quotes(key));
    }
    keys[index] = key;
  }
  return keys;
}

Result<Vocab> read_vocab(dom::object model, const AddedTokens& added,
                         const ByteAlphabet& alphabet) {
  LILY_TRY(const auto object, required<dom::object>(model, "vocab", "model", "an object"));
  LILY_TRY(std::vector<std::string_view> keys, keys_by_id(object, added));
  std::string blob;
  std::size_t n_bytes = 0;
  for (const std::string_view key : keys) n_bytes += key.size();
  blob.reserve(n_bytes);  // Never grows: the views below stay valid.
  for (std::size_t id = 0; id < keys.size(); ++id) {
    const std::size_t begin = blob.size();
    if (!alphabet.append(keys[id], blob)) {
      return corrupt("model.vocab: " + in_quotes(keys[id]) + ", id " + std::to_string(id) +
                     ", is not written in the byte alphabet");
    }
    keys[id] = std::string_view(blob).substr(begin);
  }
  auto vocab = Vocab::build(keys);
  if (!vocab) return with_context("model.vocab", std::move(vocab).error());
  return vocab;
}

Result<std::array<TokenId, 256>> single_bytes(const Vocab& vocab) {
  std::array<TokenId, 256> ids{};
  for (std::size_t byte = 0; byte < ids.size(); ++byte) {
    const char text = static_cast<char>(byte);
    ids[byte] = vocab.find({&text, 1});
    if (ids[byte] == kNoToken)
      return corrupt("model.vocab: no token for byte " + std::to_string(byte));
  }
  return ids;
}

class MergeReader {
 public:
  MergeReader(const Vocab& vocab, const ByteAlphabet& alphabet)
      : vocab_(vocab), alphabet_(alphabet) {}

  Result<std::vector<Merge>> read(dom::array list) {
    std::vector<Merge> merges;
    TokenId guess =
        0;  // Merges mostly come in the order of what they make, so most lookups can be spared.
    for (const dom::element item : list) {
      const auto parts = parts_of(item);
      if (!parts)
        return corrupt(where(merges) + ": expected two tokens, as \"a b\" or [\"a\", \"b\"]");
      bytes_.clear();
      const Merge merge{append_token(parts->first), append_token(parts->second), find_near(guess)};
      if (merge.left == kNoToken || merge.right == kNoToken) {
        return corrupt(where(merges) + ": " +
                       in_quotes(merge.left == kNoToken ? parts->first : parts->second) +
                       " is not in the vocabulary");
      }
      if (merge.result == kNoToken) {
        return corrupt(where(merges) + ": " + in_quotes(parts->first) + " and " +
                       in_quotes(parts->second) + " make a token that is not in the vocabulary");
      }
      guess = merge.result + 1;
      merges.push_back(merge);
      if (merges.size() > MergeTable::kMaxMerges)
        return corrupt(where(merges) + ": too many merges");
    }
    return merges;
  }

 private:
  using Parts = std::pair<std::string_view, std::string_view>;
  static std::string where(const std::vector<Merge>& merges) {
    return "model.merges[" + std::to_string(merges.size()) + "]";
  }

  static std::optional<Parts> parts_of(dom::element item) {
    Parts parts;
    if (std::string_view text; item.get(text) == simdjson::SUCCESS) {
      const std::size_t space = text.find(' ');
      if (space == std::string_view::npos) return std::nullopt;
      parts = {text.substr(0, space), text.substr(space + 1)};
    } else {
      dom::array pair;
      if (item.get(pair) != simdjson::SUCCESS || pair.size() != 2) return std::nullopt;
      if (pair.at(0).get(parts.first) != simdjson::SUCCESS) return std::nullopt;
      if (pair.at(1).get(parts.second) != simdjson::SUCCESS) return std::nullopt;
    }
    if (parts.first.empty() || parts.second.empty()) return std::nullopt;
    return parts;
  }

  // The token's id, or kNoToken; its bytes are appended to bytes_.
  TokenId append_token(std::string_view text) {
    const std::size_t begin = bytes_.size();
    if (!alphabet_.append(text, bytes_)) return kNoToken;
    return vocab_.find(std::string_view(bytes_).substr(begin));
  }

  TokenId find_near(TokenId guess) const {
    return vocab_.bytes(guess) == bytes_ ? guess : vocab_.find(bytes_);
  }

  const Vocab& vocab_;
  const ByteAlphabet& alphabet_;
  std::string bytes_;
};

// --- The stages around the model ---

Result<void> check_byte_level(dom::object object, const std::string& where) {
  LILY_RETURN_IF_ERROR(expect_type(object, where, "ByteLevel"));
  LILY_RETURN_IF_ERROR(refuse_flag(object, "add_prefix_space", where, true, true));
  return refuse_flag(object, "use_regex", where, true, true);
}

Result<std::string> read_split(dom::object split, const std::string& where) {
  LILY_RETURN_IF_ERROR(expect_type(split, where, "Split"));
  LILY_RETURN_IF_ERROR(refuse_flag(split, "invert", where, true, false));
  LILY_TRY(const auto behavior, required<std::string_view>(split, "behavior", where, "a string"));
  if (behavior != "Isolated") {
    return unsupported(where + ".behavior: " + in_quotes(behavior) +
                       " is not supported, expected 'Isolated'");
  }
  LILY_TRY(const auto pattern, required<dom::object>(split, "pattern", where, "an object"));
  LILY_TRY(const auto regex, required<std::string_view>(pattern, "Regex", where + ".pattern",
                                                        "a regular expression"));
  return std::string(regex);
}

Result<std::string> read_pre_tokenizer(dom::object root) {
  const std::string where = "pre_tokenizer";
  LILY_TRY(const auto object, required<dom::object>(root, where, "", "an object"));
  LILY_RETURN_IF_ERROR(expect_type(object, where, "Sequence"));
  LILY_TRY(const auto list, required<dom::array>(object, "pretokenizers", where, "an array"));
  if (list.size() != 2) {
    return unsupported(where + ": " + std::to_string(list.size()) +
                       " steps, expected Split and ByteLevel");
  }
  LILY_TRY(const auto split,
           value_as<dom::object>(list.at(0).value_unsafe(), where + "[0]", "an object"));
  LILY_TRY(const auto bytes,
           value_as<dom::object>(list.at(1).value_unsafe(), where + "[1]", "an object"));
  LILY_RETURN_IF_ERROR(check_byte_level(bytes, where + "[1]"));
  return read_split(split, where + "[0]");
}

Result<void> check_stages(dom::object root) {
  LILY_TRY(const auto normalizer, required<dom::object>(root, "normalizer", "", "an object"));
  LILY_RETURN_IF_ERROR(expect_type(normalizer, "normalizer", "NFC"));
  LILY_TRY(const auto decoder, required<dom::object>(root, "decoder", "", "an object"));
  LILY_RETURN_IF_ERROR(expect_type(decoder, "decoder", "ByteLevel"));
  if (const auto element = member(root, "post_processor")) {
    LILY_TRY(const auto object, value_as<dom::object>(*element, "post_processor", "an object"));
    LILY_RETURN_IF_ERROR(expect_type(object, "post_processor", "ByteLevel"));
  }
  for (const char* name : {"truncation", "padding"}) {
    if (member(root, name))
      return unsupported(std::string(name) + ": not supported, expected null");
  }
  return {};
}

Result<void> check_model(dom::object model) {
  LILY_RETURN_IF_ERROR(expect_type(model, "model", "BPE"));
  LILY_RETURN_IF_ERROR(refuse_flag(model, "byte_fallback", "model", true, false));
  LILY_RETURN_IF_ERROR(refuse_flag(model, "fuse_unk", "model", true, false));
  if (const auto dropout = member(model, "dropout")) {
    LILY_TRY(const double value, value_as<double>(*dropout, "model.dropout", "a number"));
    if (value != 0) return unsupported("model.dropout: not supported, expected null");
  }
  for (const char* name : {"unk_token", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto element = member(model, name);
    if (!element) continue;
    LILY_TRY(const auto text,
             value_as<std::string_view>(*element, std::string("model.") + name, "a string"));
    if (!text.empty())
      return unsupported(std::string("model.") + name + ": " + in_quotes(text) +
                         " is not supported");
  }
  return {};
}

}  // namespace

Result<TokenizerFile> parse_tokenizer(std::string_view tokenizer_json,
                                      std::string_view config_json) {
  dom::parser parser;
  LILY_TRY(const dom::element element, parse_json(parser, tokenizer_json, "tokenizer.json"));
  LILY_TRY(const auto root, value_as<dom::object>(element, "tokenizer.json", "an object"));
  LILY_TRY(const auto model, required<dom::object>(root, "model", "", "an object"));
  LILY_RETURN_IF_ERROR(check_model(model));
  LILY_RETURN_IF_ERROR(check_stages(root));

  TokenizerFile file;
  LILY_TRY(file.split_pattern, read_pre_tokenizer(root));
  LILY_TRY(file.ignore_merges, flag(model, "ignore_merges", "model", false));
  LILY_RETURN_IF_ERROR(read_added_tokens(root, file.added));
  LILY_RETURN_IF_ERROR(check_distinct(file.added));
  LILY_RETURN_IF_ERROR(complete_added_tokens(config_json, file.added));
  LILY_RETURN_IF_ERROR(check_distinct(file.added));

  const ByteAlphabet alphabet;
  LILY_TRY(file.vocab, read_vocab(model, AddedTokens(file.added), alphabet));
  LILY_RETURN_IF_ERROR(check_added_apart(file.added, file.vocab, alphabet));
  LILY_TRY(file.byte_ids, single_bytes(file.vocab));
  LILY_TRY(const auto merges, required<dom::array>(model, "merges", "model", "an array"));
  LILY_TRY(file.merges, MergeReader(file.vocab, alphabet).read(merges));
  return file;
}

}  // namespace lily
