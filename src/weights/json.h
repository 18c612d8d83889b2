// JSON of start-up files as a small tree: parsed within bounds, duplicate keys refused, nothing thrown. The parser itself is
// nlohmann's, used in json.cc alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lily {

inline constexpr int kMaxFileJsonDepth = 32;
inline constexpr std::size_t kMaxFileJsonValues = 1'000'000;

struct JsonMember;

struct JsonValue {
  enum class Kind { kNull, kBool, kInteger, kReal, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0.0;                // Integers too, rounded.
  std::string text;
  std::vector<JsonValue> items;     // kArray
  std::vector<JsonMember> members;  // kObject, in the order of the file

  bool is(Kind k) const { return kind == k; }
  bool is_number() const { return is(Kind::kInteger) || is(Kind::kReal); }
  // The member of an object, or null. Linear: for objects of a few dozen members.
  const JsonValue* find(std::string_view key) const;
  // A short, printable form for messages: at most about 60 characters.
  std::string shown() const;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

// The tree of `text`. kCorrupt with the place of the fault, named by `what` ("config.json"), for anything that is not
// JSON, repeats a key in one object, nests deeper than kMaxFileJsonDepth or holds more than kMaxFileJsonValues values.
Result<JsonValue> parse_json_tree(std::string_view text, std::string_view what);

// Printable ASCII of a name from a file, cut to `limit` characters, for messages.
std::string printable(std::string_view text, std::size_t limit = 120);

// `text` as a JSON string with its quotes, for the files that synth writes.
std::string json_quoted(std::string_view text);

}  // namespace lily
