// One walk over the schema, another along each reference.
#include "server/schema_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "server/json_build.h"
#include "server/limits.h"
#include "server/schema_pattern.h"
#include "server/schema_weight.h"
#include "text/chat_parse.h"

namespace lily::server {
namespace {

constexpr std::size_t kMaxSchemaBytes = std::size_t{128} << 10;
constexpr int kMaxSchemas = 2000;
constexpr double kMaxCount = 4096;  // Of items, characters, properties.
constexpr double kMaxMultiple = 1024, kMaxMultiplesApart = 10'000;

constexpr std::array<std::string_view, 16> kInexpressible{"not",
                                                          "if",
                                                          "then",
                                                          "else",
                                                          "dependentRequired",
                                                          "dependentSchemas",
                                                          "dependencies",
                                                          "uniqueItems",
                                                          "contains",
                                                          "minContains",
                                                          "maxContains",
                                                          "unevaluatedProperties",
                                                          "unevaluatedItems",
                                                          "$dynamicRef",
                                                          "$recursiveRef",
                                                          "propertyNames"};
constexpr std::array<std::string_view, 7> kSchemaTypes{"null",   "boolean", "integer", "number",
                                                       "string", "array",   "object"};
// What decides alone: words beside it would not be heard.
constexpr std::array<std::string_view, 6> kDeciding{"$ref",  "const", "enum",
                                                    "anyOf", "oneOf", "allOf"};
constexpr std::array<std::string_view, 4> kShaping{"properties", "patternProperties", "items",
                                                   "prefixItems"};
// What says something of one type, which has to be named.
constexpr std::array<std::string_view, 13> kOfOneType{
    "pattern",          "minLength",        "maxLength",        "minimum",  "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf",       "minItems", "maxItems",
    "minProperties",    "maxProperties",    "patternProperties"};
constexpr std::array<std::string_view, 6> kCounts{"minLength", "maxLength",     "minItems",
                                                  "maxItems",  "minProperties", "maxProperties"};

Error bad(const std::string& place, std::string_view what) {
  return {ErrorCode::kInvalidArgument, place + ": " + std::string(what)};
}

std::optional<double> number_at(const Json& schema, std::string_view key) {
  const Json* value = schema.find(key);
  const bool number =
      value != nullptr && (value->is(JsonKind::kInteger) || value->is(JsonKind::kReal));
  return number ? std::optional(std::strtod(value->text.c_str(), nullptr)) : std::nullopt;
}

bool has(const Json& schema, std::string_view key) {
  return schema.find(key) != nullptr;
}

void rename(Json& schema, std::string_view from, std::string_view to) {
  const auto at = std::find(schema.keys.begin(), schema.keys.end(), from);
  if (at != schema.keys.end()) *at = to;
}

class Checker {
 public:
  Checker(const Json& root, std::string place) : root_(root), root_place_(std::move(place)) {}

  Result<Json> check(const Json& schema, const std::string& place, std::size_t depth) {
    if (schema.is(JsonKind::kBool)) return schema;
    if (!schema.is(JsonKind::kObject)) return wrong_kind(place, schema, "a JSON schema, an object");
    if (depth > kMaxSchemaDepth) return bad(place, "over 64 levels deep");
    if (++n_schemas_ > kMaxSchemas) return bad(root_place_, "over 2000 schemas in one");
    LILY_RETURN_IF_ERROR(check_words(schema, place));
    LILY_RETURN_IF_ERROR(check_company(schema, place));
    LILY_RETURN_IF_ERROR(check_type(schema, place));
    LILY_RETURN_IF_ERROR(check_ranges(schema, place));
    LILY_RETURN_IF_ERROR(check_multiples(schema, place));
    LILY_RETURN_IF_ERROR(check_reference(schema, place));
    Json out = schema;
    close_object(out);
    LILY_TRY(const int n_places, check_patterns(out, place));
    LILY_RETURN_IF_ERROR(weight_.add(out, n_places, place));
    LILY_RETURN_IF_ERROR(check_inside(out, place, depth));
    rename(out, "oneOf", "anyOf");
    return out;
  }

 private:
  Result<void> check_words(const Json& schema, const std::string& place) const {
    for (const auto key : kInexpressible) {
      const Json* value = schema.find(key);
      if (value == nullptr || dump_json(*value) == "false") continue;
      return Error{ErrorCode::kUnsupported,
                   place + "." + std::string(key) + ": a grammar cannot express this"};
    }
    const Json* all = schema.find("allOf");
    if (all != nullptr && all->items.size() > 1) {
      return Error{ErrorCode::kUnsupported,
                   place + ".allOf: a grammar expresses one of them, not several at once"};
    }
    const bool shaped = schema.find("pattern") != nullptr || schema.find("format") != nullptr;
    if (shaped && (schema.find("minLength") != nullptr || schema.find("maxLength") != nullptr)) {
      return Error{ErrorCode::kUnsupported,
                   place + ": a grammar expresses a pattern or a length, not both"};
    }
    const Json* values = schema.find("enum");
    if (values == nullptr) return {};
    if (!values->is(JsonKind::kArray)) return wrong_kind(place + ".enum", *values, "a list");
    if (values->items.empty()) return bad(place + ".enum", "an empty list, nothing can fit it");
    return {};
  }

  // One word that decides, and none beside it that would be passed over.
  Result<void> check_company(const Json& schema, const std::string& place) const {
    std::string_view decides;
    for (const auto key : kDeciding) {
      if (!has(schema, key)) continue;
      if (!decides.empty()) return alone(place, key, decides);
      decides = key;
    }
    for (const auto key : kShaping) {
      if (!decides.empty() && has(schema, key)) return alone(place, key, decides);
    }
    if (!decides.empty() || has(schema, "type")) return {};
    for (const auto key : kOfOneType) {
      if (has(schema, key))
        return bad(place + "." + std::string(key), "of which type? expected a \"type\" beside it");
    }
    return {};
  }

  static Error alone(const std::string& place, std::string_view key, std::string_view decides) {
    return {ErrorCode::kUnsupported, place + "." + std::string(key) + ": not together with " +
                                         std::string(decides) + "; a grammar takes one of them"};
  }

  Result<void> check_type(const Json& schema, const std::string& place) const {
    const Json* type = schema.find("type");
    if (type == nullptr) return {};
    const bool list = type->is(JsonKind::kArray);
    if (!list && !type->is(JsonKind::kString))
      return wrong_kind(place + ".type", *type, "a string or a list");
    for (std::size_t i = 0; i < (list ? type->items.size() : 1); ++i) {
      const Json& one = list ? type->items[i] : *type;
      if (std::find(kSchemaTypes.begin(), kSchemaTypes.end(), one.text) == kSchemaTypes.end()) {
        return bad(place + ".type", "found " + in_quotes(one.text) + ", expected a type of JSON");
      }
    }
    const bool fraction = schema.find("multipleOf") != nullptr && type->text != "integer";
    if (!fraction) return {};
    return Error{ErrorCode::kUnsupported,
                 place + ".multipleOf: a grammar expresses this of integers alone"};
  }

  Result<void> check_ranges(const Json& schema, const std::string& place) const {
    for (const auto key : kCounts) {
      const auto count = number_at(schema, key);
      if (!count || (*count >= 0 && *count <= kMaxCount)) continue;
      return bad(place + "." + std::string(key), "expected 0 .. 4096");
    }
    for (const auto& [low, high] :
         {std::pair("minimum", "maximum"), std::pair("minLength", "maxLength"),
          std::pair("minItems", "maxItems"), std::pair("minProperties", "maxProperties")}) {
      const auto from = number_at(schema, low), to = number_at(schema, high);
      if (from && to && *from > *to)
        return bad(place + "." + low, std::string("is over ") + high + ", nothing can fit");
    }
    return {};
  }

  // Of whole numbers: every one, or those between two ends that are not far apart.
  Result<void> check_multiples(const Json& schema, const std::string& place) const {
    if (!has(schema, "multipleOf")) return {};
    const auto of = number_at(schema, "multipleOf");
    if (!of || *of < 1 || *of > kMaxMultiple || *of != std::floor(*of))
      return bad(place + ".multipleOf", "expected a whole number, 1 .. 1024");
    const auto from = number_at(schema, "minimum"), to = number_at(schema, "maximum");
    const bool excludes = has(schema, "exclusiveMinimum") || has(schema, "exclusiveMaximum");
    if (!excludes && from.has_value() == to.has_value() &&
        (!from || *to - *from <= kMaxMultiplesApart))
      return {};
    return Error{ErrorCode::kUnsupported,
                 place +
                     ".multipleOf: a grammar expresses this without a range, or with minimum and "
                     "maximum at most 10000 apart"};
  }

  // Each pattern in its plain spelling; how many characters they name.
  Result<int> check_patterns(Json& out, const std::string& place) {
    int n_places = 0;
    for (std::size_t i = 0; i < out.keys.size(); ++i) {
      if (out.keys[i] == "pattern") {
        if (!out.items[i].is(JsonKind::kString))
          return wrong_kind(place + ".pattern", out.items[i], "a string");
        LILY_TRY(SchemaPattern plain, read_schema_pattern(out.items[i].text, place + ".pattern"));
        out.items[i].text = std::move(plain.text);
        n_places += plain.n_places;
      }
      if (out.keys[i] != "patternProperties") continue;
      for (std::string& key : out.items[i].keys) {
        LILY_TRY(SchemaPattern plain, read_schema_pattern(key, place + ".patternProperties"));
        key = std::move(plain.text);
        n_places += plain.n_places;
      }
    }
    return n_places;
  }

  // A path of keys and indexes from the root.
  const Json* follow(std::string_view path) const {
    if (!path.starts_with('#')) return nullptr;
    const Json* at = &root_;
    for (path.remove_prefix(1); at != nullptr && path.starts_with('/');) {
      const auto end = path.find('/', 1);
      const std::string key(path.substr(1, end == std::string_view::npos ? end : end - 1));
      const Json* next = at->find(key);
      if (at->is(JsonKind::kArray)) {
        const auto index = static_cast<std::size_t>(std::strtoul(key.c_str(), nullptr, 10));
        next = index < at->items.size() ? &at->items[index] : nullptr;
      }
      at = next;
      path.remove_prefix(end == std::string_view::npos ? path.size() : end);
    }
    return path.empty() ? at : nullptr;
  }

  // References lead somewhere, and not in a circle that writes nothing.
  Result<void> check_reference(const Json& schema, const std::string& place) const {
    const Json* at = &schema;
    for (int steps = 0; at->find("$ref") != nullptr; ++steps) {
      const Json& reference = *at->find("$ref");
      if (!reference.is(JsonKind::kString))
        return wrong_kind(place + ".$ref", reference, "a string");
      if (steps > kMaxSchemas || at == follow(reference.text))
        return bad(place + ".$ref", "it leads in a circle, nothing can fit");
      at = follow(reference.text);
      if (at == nullptr) {
        return bad(place + ".$ref", "found " + in_quotes(reference.text) +
                                        ", expected a place in this schema: #/$defs/NAME");
      }
    }
    return {};
  }

  Result<void> check_named(Json& out, std::string_view key, const std::string& place,
                           std::size_t depth) {
    const auto at = std::find(out.keys.begin(), out.keys.end(), key);
    if (at == out.keys.end()) return {};
    Json& inner = out.items[static_cast<std::size_t>(at - out.keys.begin())];
    const std::string inside = place + "." + std::string(key);
    if (!inner.is(JsonKind::kObject)) return wrong_kind(inside, inner, "an object of schemas");
    for (std::size_t i = 0; i < inner.items.size(); ++i) {
      LILY_TRY(inner.items[i], check(inner.items[i], inside + "." + inner.keys[i], depth + 1));
    }
    return {};
  }

  Result<void> check_listed(Json& out, std::string_view key, const std::string& place,
                            std::size_t depth) {
    const auto at = std::find(out.keys.begin(), out.keys.end(), key);
    if (at == out.keys.end()) return {};
    Json& inner = out.items[static_cast<std::size_t>(at - out.keys.begin())];
    const std::string inside = place + "." + std::string(key);
    if (inner.is(JsonKind::kObject) || inner.is(JsonKind::kBool)) {
      LILY_TRY(inner, check(inner, inside, depth + 1));
      return {};
    }
    if (!inner.is(JsonKind::kArray))
      return wrong_kind(inside, inner, "a schema or a list of schemas");
    if (inner.items.empty()) return bad(inside, "an empty list, nothing can fit it");
    for (std::size_t i = 0; i < inner.items.size(); ++i) {
      LILY_TRY(inner.items[i], check(inner.items[i], item_place(inside, i), depth + 1));
    }
    return {};
  }

  Result<void> check_inside(Json& out, const std::string& place, std::size_t depth) {
    for (const char* key : {"properties", "$defs", "definitions", "patternProperties"}) {
      LILY_RETURN_IF_ERROR(check_named(out, key, place, depth));
    }
    for (const char* key :
         {"items", "prefixItems", "anyOf", "oneOf", "allOf", "additionalProperties"}) {
      LILY_RETURN_IF_ERROR(check_listed(out, key, place, depth));
    }
    return {};
  }

  static void close_object(Json& out) {
    const bool listed = out.find("properties") != nullptr;
    const bool open =
        out.find("additionalProperties") == nullptr && out.find("patternProperties") == nullptr;
    if (open && (listed || text_at(out, "type") == "object"))
      out.set("additionalProperties", json_bool(!listed));
  }

  const Json& root_;
  std::string root_place_;
  int n_schemas_ = 0;
  SchemaWeight weight_;
};

}  // namespace

Result<Json> check_schema(const Json& schema, const std::string& place) {
  if (dump_json(schema).size() > kMaxSchemaBytes) return bad(place, "over 128 KiB of schema");
  return Checker(schema, place).check(schema, place, 0);
}

}  // namespace lily::server
