// JSON as the chat format needs it: keys keep their order, integers keep their digits, and numbers
// are spelt as Python's json module spells them, because the chat template's bytes are defined by
// Python. Reading is bounded; writing is exact.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lily {

enum class JsonKind { kNull, kBool, kInteger, kReal, kString, kArray, kObject };

// One JSON value, owning everything below it.
struct Json {
  JsonKind kind = JsonKind::kNull;
  std::string
      text;  // A string's characters; otherwise the scalar as Python writes it: 12, 1e-07, true.
  std::vector<std::string> keys;  // An object's, in order, none twice; keys[i] names items[i].
  std::vector<Json> items;        // The values of an array or an object.

  bool is(JsonKind wanted) const { return kind == wanted; }
  // The value under a key of an object; nullptr when there is none, or when this is no object.
  const Json* find(std::string_view key) const;
  // Sets or adds a key of an object.
  void set(std::string key, Json value);

  static Json string(std::string text) { return Json{JsonKind::kString, std::move(text), {}, {}}; }
  static Json array() { return Json{JsonKind::kArray, {}, {}, {}}; }
  static Json object() { return Json{JsonKind::kObject, {}, {}, {}}; }
};

// What parse_json accepts at most; more is kTooLarge.
inline constexpr std::size_t kMaxJsonBytes = std::size_t{32} << 20;
inline constexpr std::size_t kMaxJsonValues = 1'000'000;
inline constexpr std::size_t kMaxJsonDepth = 128;

// Reads one JSON text (UTF-8) as Python's json.loads does: of a repeated key the last value stays,
// at the first place. Refused, unlike there: NaN and Infinity, numbers beyond the range of a double
// (an integer of 309 digits), lone surrogates.
Result<Json> parse_json(std::string_view text);

// Writes a value as json.dumps(value, ensure_ascii=False): separators ", " and ": ".
std::string dump_json(const Json& value);

// Appends text with the escapes that dump_json puts inside a string, without the quotes.
void append_json_escaped(std::string_view text, std::string& out);

// "a string", "an object" ...: for error messages.
std::string_view kind_name(JsonKind kind);

// Text for error messages: in quotes, escaped, cut after 64 bytes.
std::string in_quotes(std::string_view text);

}  // namespace lily
