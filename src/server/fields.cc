// Kinds, ranges, and the list of what was left over.
#include "server/fields.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "server/json_build.h"
#include "text/chat_parse.h"

namespace lily::server {
namespace {

constexpr std::size_t kMaxIgnoredFields = 64;
constexpr std::size_t kMaxNameBytes = 64;

// Numbers as people write them: 2 and 0.5, not 2.000000.
std::string plain(double value) {
  return json_real(value).text;
}

}  // namespace

Result<double> read_number(std::string_view place, const Json& value) {
  if (!value.is(JsonKind::kInteger) && !value.is(JsonKind::kReal)) {
    return wrong_kind(place, value, "a number");
  }
  return std::strtod(value.text.c_str(), nullptr);
}

Result<std::int64_t> read_integer(std::string_view place, const Json& value) {
  LILY_TRY(const double number, read_number(place, value));
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (number != std::floor(number) || std::fabs(number) > kExact) {
    return Error{
        ErrorCode::kInvalidArgument,
        std::string(place) + ": found " + value.text.substr(0, 40) + ", expected a whole number"};
  }
  return static_cast<std::int64_t>(number);
}

const Json* Fields::take(std::string_view key) {
  for (std::size_t i = 0; i < object_.keys.size(); ++i) {
    if (object_.keys[i] != key) continue;
    used_[i] = true;
    return object_.items[i].is(JsonKind::kNull) ? nullptr : &object_.items[i];
  }
  return nullptr;
}

Error Fields::wrong(std::string_view key, const Json& found, std::string_view expected) const {
  return wrong_kind(place_ + std::string(key), found, expected);
}

Result<std::optional<bool>> Fields::boolean(std::string_view key) {
  const Json* value = take(key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is(JsonKind::kBool)) return wrong(key, *value, "true or false");
  return std::optional(value->text == "true");
}

Result<std::optional<std::string>> Fields::text(std::string_view key) {
  const Json* value = take(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is(JsonKind::kString)) return wrong(key, *value, "a string");
  return std::optional(value->text);
}

Result<std::optional<double>> Fields::number(std::string_view key, const Range& range) {
  const Json* value = take(key);
  if (value == nullptr) return std::optional<double>();
  const std::string place = place_ + std::string(key);
  LILY_TRY(const double number, read_number(place, *value));
  if (!(number >= range.low && number <= range.high)) {
    return Error{ErrorCode::kInvalidArgument,
                 place + ": " + plain(number) + ", expected " + range.words};
  }
  return std::optional(number);
}

Result<std::optional<std::int64_t>> Fields::integer(std::string_view key, const Range& range) {
  const Json* value = take(key);
  if (value == nullptr) return std::optional<std::int64_t>();
  const std::string place = place_ + std::string(key);
  LILY_TRY(const std::int64_t number, read_integer(place, *value));
  if (static_cast<double>(number) < range.low || static_cast<double>(number) > range.high) {
    return Error{ErrorCode::kInvalidArgument,
                 place + ": " + std::to_string(number) + ", expected " + range.words};
  }
  return std::optional(number);
}

void Fields::ignore(std::string_view key) {
  if (take(key) != nullptr) ignored_.push_back(place_ + std::string(key));
}

Result<void> Fields::refuse_unless(std::string_view key,
                                   std::initializer_list<std::string_view> neutral,
                                   std::string_view reason) {
  const Json* value = take(key);
  if (value == nullptr) return {};
  const std::string text = dump_json(*value);
  if (std::find(neutral.begin(), neutral.end(), text) != neutral.end()) return {};
  return Error{ErrorCode::kUnsupported, place_ + std::string(key) + ": " + std::string(reason)};
}

std::vector<std::string> Fields::ignored() {
  for (std::size_t i = 0; i < used_.size() && ignored_.size() < kMaxIgnoredFields; ++i) {
    if (used_[i] || object_.items[i].is(JsonKind::kNull)) continue;
    ignored_.push_back(place_ + object_.keys[i].substr(0, kMaxNameBytes));
  }
  return std::move(ignored_);
}

}  // namespace lily::server
