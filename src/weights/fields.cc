// Reading fields with limits; see fields.h.
#include "weights/fields.h"

#include <fmt/format.h>

#include <cmath>

namespace lily {
namespace {

using Kind = JsonValue::Kind;

std::string range_text(WholeRange range) {
  const auto text = fmt::format("a whole number from {} to {}", range.low, range.high);
  return range.multiple_of == 1 ? text : fmt::format("{}, a multiple of {}", text, range.multiple_of);
}

}  // namespace

const JsonValue* Fields::find(std::string_view name) const {
  const JsonValue* value = object_.find(name);
  return value && !value->is(Kind::kNull) ? value : nullptr;
}

void Fields::refuse(std::string_view name, std::string_view found, std::string_view supported) {
  if (error_) return;
  error_ = Error{ErrorCode::kUnsupported,
                 fmt::format("{}{}: found {}, supported: {}", where_, name, found, supported)};
}

Result<void> Fields::outcome() const {
  if (error_) return *error_;
  return {};
}

int Fields::whole(std::string_view name, WholeRange range) {
  const JsonValue* value = find(name);
  if (!value) {
    refuse(name, "nothing", range_text(range));
    return range.low;
  }
  const bool fits = value->is(Kind::kInteger) && value->integer >= range.low && value->integer <= range.high &&
                    value->integer % range.multiple_of == 0;
  if (!fits) refuse(name, value->shown(), range_text(range));
  return fits ? static_cast<int>(value->integer) : range.low;
}

int Fields::whole_or(std::string_view name, int fallback, WholeRange range) {
  return find(name) ? whole(name, range) : fallback;
}

bool Fields::number_in(std::string_view name, const JsonValue& value, double low, double high) {
  const bool fits = value.is_number() && value.real >= low && value.real <= high;
  if (!fits) refuse(name, value.shown(), fmt::format("a number from {} to {}", low, high));
  return fits;
}

std::optional<double> Fields::optional_real(std::string_view name, double low, double high) {
  const JsonValue* value = find(name);
  if (!value || !number_in(name, *value, low, high)) return std::nullopt;
  return value->real;
}

double Fields::real(std::string_view name, double low, double high) {
  if (!find(name)) refuse(name, "nothing", fmt::format("a number from {} to {}", low, high));
  return optional_real(name, low, high).value_or(low);
}

double Fields::real_or(std::string_view name, double fallback, double low, double high) {
  return optional_real(name, low, high).value_or(fallback);
}

std::string Fields::word_or(std::string_view name, std::string fallback) {
  const JsonValue* value = find(name);
  if (!value) return fallback;
  if (!value->is(Kind::kString)) refuse(name, value->shown(), "a string");
  return value->text;
}

void Fields::fixed_bool(std::string_view name, bool expected) {
  const JsonValue* value = find(name);
  if (value && !(value->is(Kind::kBool) && value->boolean == expected)) {
    refuse(name, value->shown(), expected ? "true" : "false");
  }
}

void Fields::fixed_number(std::string_view name, double expected) {
  const JsonValue* value = find(name);
  if (value && !(value->is_number() && value->real == expected)) {
    refuse(name, value->shown(), fmt::format("{}", expected));
  }
}

void Fields::fixed_word(std::string_view name, std::string_view expected) {
  const JsonValue* value = find(name);
  if (value && !(value->is(Kind::kString) && value->text == expected)) {
    refuse(name, value->shown(), fmt::format("'{}'", expected));
  }
}

void Fields::no_items(std::string_view name) {
  const JsonValue* value = find(name);
  if (value && !(value->is(Kind::kArray) && value->items.empty())) refuse(name, value->shown(), "an empty list");
}

void Fields::absent(std::string_view name, std::string_view supported) {
  if (const JsonValue* value = find(name)) refuse(name, value->shown(), supported);
}

}  // namespace lily
