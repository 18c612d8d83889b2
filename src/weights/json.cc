// The one user of nlohmann/json in this module: its event interface builds our tree, so that bounds and duplicate keys are
// checked while reading and no exception is involved.
#include "weights/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace lily {
namespace {

using Kind = JsonValue::Kind;

// Takes nlohmann's events. Each returns false to stop; error_ then says why.
class TreeBuilder {
 public:
  bool null() { return add({}) != nullptr; }
  bool boolean(bool value) {
    JsonValue v;
    v.kind = Kind::kBool;
    v.boolean = value;
    return add(std::move(v)) != nullptr;
  }
  bool number_integer(std::int64_t value) {
    JsonValue v;
    v.kind = Kind::kInteger;
    v.integer = value;
    v.real = static_cast<double>(value);
    return add(std::move(v)) != nullptr;
  }
  bool number_unsigned(std::uint64_t value) {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return number_float(static_cast<double>(value), {});
    }
    return number_integer(static_cast<std::int64_t>(value));
  }
  bool number_float(double value, const std::string& /*as_written*/) {
    JsonValue v;
    v.kind = Kind::kReal;
    v.real = value;
    return add(std::move(v)) != nullptr;
  }
  bool string(std::string& value) {
    JsonValue v;
    v.kind = Kind::kString;
    v.text = std::move(value);
    return add(std::move(v)) != nullptr;
  }
  bool binary(std::vector<std::uint8_t>& /*value*/) { return fail("binary value"); }
  bool start_object(std::size_t /*size*/) { return open(Kind::kObject); }
  bool start_array(std::size_t /*size*/) { return open(Kind::kArray); }
  bool key(std::string& name) {
    key_ = std::move(name);
    return true;
  }
  bool end_object() { return keys_differ(*open_.back()) && close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& /*error*/) {
    return fail(fmt::format("not JSON at byte {}, near '{}'", position, printable(token, 40)));
  }

  JsonValue take_root() { return std::move(root_); }
  const std::string& error() const { return error_; }

 private:
  bool fail(std::string why) {
    if (error_.empty()) error_ = std::move(why);
    return false;
  }

  // Where the value now lives; the parents of an open value do not grow, so the address holds until it is closed.
  JsonValue* add(JsonValue value) {
    if (++count_ > kMaxFileJsonValues) {
      fail(fmt::format("more than {} values", kMaxFileJsonValues));
      return nullptr;
    }
    if (open_.empty()) return &(root_ = std::move(value));
    JsonValue& parent = *open_.back();
    if (parent.is(Kind::kArray)) return &parent.items.emplace_back(std::move(value));
    return &parent.members.emplace_back(JsonMember{std::move(key_), std::move(value)}).value;
  }

  bool open(Kind kind) {
    if (open_.size() >= kMaxFileJsonDepth) {
      return fail(fmt::format("nested deeper than {} levels", kMaxFileJsonDepth));
    }
    JsonValue v;
    v.kind = kind;
    JsonValue* place = add(std::move(v));
    if (place) open_.push_back(place);
    return place != nullptr;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  bool keys_differ(const JsonValue& object) {
    std::vector<std::string_view> keys;
    keys.reserve(object.members.size());
    for (const auto& member : object.members) keys.push_back(member.key);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    return twice == keys.end() || fail(fmt::format("key '{}' appears twice", printable(*twice)));
  }

  JsonValue root_;
  std::vector<JsonValue*> open_;
  std::string key_, error_;
  std::size_t count_ = 0;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  for (const auto& member : members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

std::string JsonValue::shown() const {
  switch (kind) {
    case Kind::kNull: return "null";
    case Kind::kBool: return boolean ? "true" : "false";
    case Kind::kInteger: return std::to_string(integer);
    case Kind::kReal: return fmt::format("{}", real);
    case Kind::kString: return fmt::format("'{}'", printable(text, 60));
    case Kind::kArray: return fmt::format("a list of {}", items.size());
    case Kind::kObject: return fmt::format("an object of {} fields", members.size());
  }
  return {};
}

Result<JsonValue> parse_json_tree(std::string_view text, std::string_view what) {
  TreeBuilder builder;
  const bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  if (!parsed || !builder.error().empty()) {
    const auto& why = builder.error().empty() ? std::string("not JSON") : builder.error();
    return Error{ErrorCode::kCorrupt, fmt::format("{}: {}", what, why)};
  }
  return builder.take_root();
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  for (const char c : text.substr(0, limit)) out += c >= ' ' && c <= '~' ? c : '?';
  if (text.size() > limit) out += "...";
  return out;
}

std::string json_quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace lily
