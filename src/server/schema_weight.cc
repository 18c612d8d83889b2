// A sum of measured costs: bench figures for each word, at 248,077 tokens.
#include "server/schema_weight.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "server/json_build.h"
#include "text/chat_parse.h"

namespace lily::server {
namespace {

constexpr double kMostUnits = 120'000;
constexpr double kSchemaUnits = 20, kRangeUnits = 120, kFormatUnits = 3'000, kLengthUnits = 100,
                 kPatternPlaceUnits = 250, kOpenObjectUnits = 8'000, kOpenPropertyUnits = 2'500,
                 kRemainderUnits = 15, kLiteralByteUnits = 0.2;

double number_or_zero(const Json& schema, std::string_view key) {
  const Json* value = schema.find(key);
  return value == nullptr ? 0 : std::strtod(value->text.c_str(), nullptr);
}

bool has_any(const Json& schema, std::initializer_list<std::string_view> keys) {
  return std::any_of(keys.begin(), keys.end(),
                     [&](std::string_view key) { return schema.find(key) != nullptr; });
}

double literals(const Json& schema) {
  double bytes = 0;
  for (const char* key : {"const", "enum"}) {
    if (const Json* value = schema.find(key))
      bytes += static_cast<double>(dump_json(*value).size());
  }
  return bytes * kLiteralByteUnits;
}

// Which of the optional ones came is a state, and how many where they are counted.
double properties(const Json& schema) {
  const Json* listed = schema.find("properties");
  if (listed == nullptr) return 0;
  const Json* required = schema.find("required");
  const auto n = static_cast<double>(listed->items.size());
  const auto n_required = required == nullptr ? 0.0 : static_cast<double>(required->items.size());
  const double counted =
      std::max(number_or_zero(schema, "minProperties"), number_or_zero(schema, "maxProperties"));
  return n * std::max(1.0, n - n_required) * (1 + counted);
}

// A name that is none of the listed ones is looked for beside them.
double other_properties(const Json& schema) {
  const Json* listed = schema.find("properties");
  const Json* others = schema.find("additionalProperties");
  const bool closed = others == nullptr || (others->is(JsonKind::kBool) && others->text == "false");
  if (listed == nullptr || (closed && !has_any(schema, {"patternProperties"}))) return 0;
  return kOpenObjectUnits + kOpenPropertyUnits * static_cast<double>(listed->items.size());
}

// A remainder is a state; between two ends every multiple is written out.
double multiples(const Json& schema) {
  const double of = number_or_zero(schema, "multipleOf");
  if (of < 1) return 0;
  const double width =
      has_any(schema, {"minimum"})
          ? (number_or_zero(schema, "maximum") - number_or_zero(schema, "minimum")) / of
          : of;
  return std::max(0.0, width) * kRemainderUnits;
}

double units_of(const Json& schema) {
  double sum = kSchemaUnits + literals(schema) + properties(schema) + other_properties(schema) +
               multiples(schema);
  if (has_any(schema, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}))
    sum += kRangeUnits;
  if (has_any(schema, {"minLength", "maxLength", "minItems", "maxItems"})) sum += kLengthUnits;
  if (has_any(schema, {"format"})) sum += kFormatUnits;
  return sum;
}

}  // namespace

Result<void> SchemaWeight::add(const Json& schema, int n_pattern_places, const std::string& place) {
  units_ += units_of(schema) + kPatternPlaceUnits * n_pattern_places;
  if (units_ <= kMostUnits) return {};
  return Error{ErrorCode::kInvalidArgument,
               place +
                   ": up to here the schema is too large for a grammar (optional properties, "
                   "patterns, ranges, formats and literals count)"};
}

}  // namespace lily::server
