// The only file of the chat format that knows the JSON library: its event reader builds our tree.
#include "text/chat_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

namespace lily {
namespace {

// Python's repr of a finite double: the shortest digits that read back, positional for exponents -4
// to 15.
std::string python_float(double value) {
  std::array<char, 40> buffer;
  char* const end = buffer.data() + buffer.size();
  const auto written = std::to_chars(buffer.data(), end, value, std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<std::size_t>(written.ptr - buffer.data()));
  const auto e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + 2, written.ptr, exponent);
  if (text[e + 1] == '-') exponent = -exponent;
  if (exponent < -4 || exponent >= 16) return std::string(text);  // 1e-07, as Python has it.
  std::string out(text.starts_with('-') ? "-" : "");
  std::string digits(text.substr(out.size(), e - out.size()));
  std::erase(digits, '.');
  if (exponent < 0) {
    return out.append("0.").append(static_cast<std::size_t>(-exponent - 1), '0').append(digits);
  }
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() > whole) return out.append(digits.insert(whole, 1, '.'));
  return out.append(digits).append(whole - digits.size(), '0').append(".0");
}

// Python's dict: a repeated key keeps its first place and takes its last value.
void drop_repeated_keys(Json& object) {
  std::unordered_map<std::string_view, std::size_t> place;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < object.keys.size(); ++i) {
    // The map's views point at keys already in their final place, or at this one.
    if (const auto found = place.find(object.keys[i]); found != place.end()) {
      object.items[found->second] = std::move(object.items[i]);
      continue;
    }
    if (kept != i) {
      object.keys[kept] = std::move(object.keys[i]);
      object.items[kept] = std::move(object.items[i]);
    }
    place.emplace(object.keys[kept], kept);
    ++kept;
  }
  object.keys.resize(kept);
  object.items.resize(kept);
}

// Receives the library's events; every method returns whether to go on.
class TreeBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return put({JsonKind::kNull, "null", {}, {}}); }
  bool boolean(bool value) override {
    return put({JsonKind::kBool, value ? "true" : "false", {}, {}});
  }
  bool number_integer(std::int64_t value) override {
    return put({JsonKind::kInteger, std::to_string(value), {}, {}});
  }
  bool number_unsigned(std::uint64_t value) override {
    return put({JsonKind::kInteger, std::to_string(value), {}, {}});
  }
  // The library reads integers beyond 64 bits as doubles; the source text keeps their digits.
  bool number_float(double value, const std::string& source) override {
    if (source.find_first_of(".eE") == std::string::npos)
      return put({JsonKind::kInteger, source, {}, {}});
    return put({JsonKind::kReal, python_float(value), {}, {}});
  }
  bool string(std::string& value) override { return put(Json::string(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool key(std::string& name) override {
    open_.back().keys.push_back(std::move(name));
    return true;
  }
  bool end_array() override { return close(); }
  bool end_object() override {
    drop_repeated_keys(open_.back());
    return close();
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& fault) override {
    const bool overflow = fault.id == 406;
    error_ = Error{ErrorCode::kInvalidArgument,
                   std::string(overflow ? "JSON number out of range" : "not valid JSON") +
                       " at byte " + std::to_string(position)};
    return false;
  }

  Json& root() { return root_; }
  const Error& error() const { return error_; }

 private:
  bool refuse(const char* what, std::size_t most) {
    error_ = Error{ErrorCode::kTooLarge,
                   std::string("JSON with too many ") + what + ", at most " + std::to_string(most)};
    return false;
  }
  bool count() { return ++n_values_ <= kMaxJsonValues || refuse("values", kMaxJsonValues); }
  void attach(Json value) {
    (open_.empty() ? root_ : open_.back().items.emplace_back()) = std::move(value);
  }
  bool put(Json value) {
    if (!count()) return false;
    attach(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (!count()) return false;
    if (open_.size() == kMaxJsonDepth) return refuse("nested levels", kMaxJsonDepth);
    open_.push_back(std::move(value));
    return true;
  }
  bool close() {
    Json done = std::move(open_.back());
    open_.pop_back();
    attach(std::move(done));
    return true;
  }

  std::vector<Json> open_;  // Arrays and objects not yet closed, outermost first.
  Json root_;
  std::size_t n_values_ = 0;
  Error error_{ErrorCode::kInvalidArgument, "not valid JSON"};
};

void append_value(const Json& value, std::string& out);

void append_items(const Json& value, std::string& out) {
  const bool named = value.is(JsonKind::kObject);
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    if (i > 0) out += ", ";
    if (named) {
      out += '"';
      append_json_escaped(value.keys[i], out);
      out += "\": ";
    }
    append_value(value.items[i], out);
  }
}

void append_value(const Json& value, std::string& out) {
  switch (value.kind) {
    case JsonKind::kString:
      out += '"';
      append_json_escaped(value.text, out);
      out += '"';
      return;
    case JsonKind::kArray:
    case JsonKind::kObject:
      out += value.is(JsonKind::kArray) ? '[' : '{';
      append_items(value, out);
      out += value.is(JsonKind::kArray) ? ']' : '}';
      return;
    case JsonKind::kNull:
      out += "null";
      return;
    default:
      out += value.text;
  }
}

void append_escaped(char c, std::string& out) {
  constexpr std::string_view kNamed = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf",
                             kHex = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  if (const auto named = kNamed.find(c); named != std::string_view::npos) {
    out += '\\';
    out += kLetters[named];
  } else if (byte < 0x20) {
    out += "\\u00";
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  } else {
    out += c;
  }
}

}  // namespace

const Json* Json::find(std::string_view key) const {
  const auto at = std::find(keys.begin(), keys.end(), key);
  return at == keys.end() ? nullptr : &items[static_cast<std::size_t>(at - keys.begin())];
}

void Json::set(std::string key, Json value) {
  const auto at = static_cast<std::size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin());
  if (at < keys.size()) {
    items[at] = std::move(value);
    return;
  }
  keys.push_back(std::move(key));
  items.push_back(std::move(value));
}

Result<Json> parse_json(std::string_view text) {
  if (text.size() > kMaxJsonBytes) {
    return Error{ErrorCode::kTooLarge, "JSON of " + std::to_string(text.size()) +
                                           " bytes, at most " + std::to_string(kMaxJsonBytes)};
  }
  TreeBuilder builder;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return builder.error();
  return std::move(builder.root());
}

std::string dump_json(const Json& value) {
  std::string out;
  append_value(value, out);
  return out;
}

void append_json_escaped(std::string_view text, std::string& out) {
  for (const char c : text) append_escaped(c, out);
}

std::string_view kind_name(JsonKind kind) {
  constexpr std::array<std::string_view, 7> kNames{"null",     "a boolean", "a number", "a number",
                                                   "a string", "an array",  "an object"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 64;
  std::size_t end = std::min(text.size(), kMost);
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  std::string out = "\"";
  append_json_escaped(text.substr(0, end), out);
  return out + (end < text.size() ? "...\"" : "\"");
}

}  // namespace lily
