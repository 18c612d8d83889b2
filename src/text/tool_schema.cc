// A schema is read as far as it decides a type: type, enum, const, anyOf, oneOf, allOf, $ref,
// nullable, items, properties.
#include "text/tool_schema.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace lily {
namespace {

using Types = unsigned;  // A set of the bits below.
constexpr Types kNull = 1, kBool = 2, kInteger = 4, kNumber = 8, kString = 16, kArray = 32,
                kObject = 64, kAny = 127;
constexpr int kMaxSchemaDepth = 16;
constexpr int kMaxSchemaSteps =
    20'000;  // Of one value: references can make a small schema endless.

struct TypeRow {
  std::string_view name;
  Types types;
};
// JSON Schema's names, and the Python names that some clients write instead.
constexpr std::array kTypeNames{
    TypeRow{"null", kNull},     TypeRow{"boolean", kBool},  TypeRow{"integer", kInteger},
    TypeRow{"number", kNumber}, TypeRow{"string", kString}, TypeRow{"array", kArray},
    TypeRow{"object", kObject}, TypeRow{"bool", kBool},     TypeRow{"int", kInteger},
    TypeRow{"float", kNumber},  TypeRow{"str", kString},    TypeRow{"list", kArray},
    TypeRow{"dict", kObject},
};

Types types_named(const Json& type) {
  for (const TypeRow& row : kTypeNames) {
    if (type.is(JsonKind::kString) && type.text == row.name) return row.types;
  }
  return kAny;
}

Types types_of(const Json& value) {
  constexpr std::array<Types, 7> kOfKind{kNull,  kBool,  kInteger | kNumber, kNumber, kString,
                                         kArray, kObject};
  return kOfKind[static_cast<std::size_t>(value.kind)];
}

// The digits of a number that is whole however it is written (3.0, 1e3); empty when it is not, or
// too long to spell out.
std::string whole_digits(std::string_view number) {
  constexpr int kMaxPower = 400;
  const bool negative = number.starts_with('-');
  if (negative) number.remove_prefix(1);
  const auto e = number.find_first_of("eE");
  int power = 0;
  if (e != std::string_view::npos) {
    const char* begin = number.data() + e + (number[e + 1] == '+' ? 2 : 1);
    if (std::from_chars(begin, number.data() + number.size(), power).ec != std::errc{}) return {};
  }
  std::string digits(number.substr(0, e));
  if (const auto point = digits.find('.'); point != std::string::npos) {
    power -= static_cast<int>(std::min<std::size_t>(digits.size() - point - 1, kMaxPower + 1));
    digits.erase(point, 1);
  }
  for (; power < 0 && !digits.empty() && digits.back() == '0'; ++power) digits.pop_back();
  if (digits.find_first_not_of('0') == std::string::npos) return "0";
  if (power < 0 || power > kMaxPower) return {};
  digits.append(static_cast<std::size_t>(power), '0');
  digits.erase(0, digits.find_first_not_of('0'));
  return negative ? "-" + digits : digits;
}

// The parameters' schema, which local references point into, and the steps left for one value.
struct SchemaRoot {
  const Json& json;
  int steps_left = kMaxSchemaSteps;
};

// A schema inside it. Beyond the bounds anything fits.
class Schema {
 public:
  Schema(SchemaRoot& root, const Json* at, int depth) : root_(root), at_(at), depth_(depth) {
    follow_reference();
  }

  Types types() const;
  // The value with whole numbers as integers where integers are asked for; nothing when it does not
  // fit.
  std::optional<Json> fit(const Json& value) const;
  bool lists_string(std::string_view text) const;
  Schema property(std::string_view name) const;

 private:
  const Json* find(std::string_view key) const { return at_ == nullptr ? nullptr : at_->find(key); }
  const Json* find_list(std::string_view key) const {
    const Json* list = find(key);
    return list != nullptr && list->is(JsonKind::kArray) ? list : nullptr;
  }
  Schema inner(const Json* at) const {
    const bool within_bounds = depth_ < kMaxSchemaDepth && root_.steps_left-- > 0;
    return {root_, within_bounds ? at : nullptr, depth_ + 1};
  }
  void follow_reference();
  Types own_types() const;
  std::optional<Json> fit_alternative(const Json& list, const Json& value) const;
  std::optional<Json> fit_items(const Json& value) const;
  bool is_listed(const Json& value) const;

  SchemaRoot& root_;
  const Json* at_;  // nullptr: no schema, anything fits.
  int depth_;
};

// "#/$defs/x": a path of keys from the root, with ~1 for / and ~0 for ~. Others, and circles, are
// no schema.
const Json* local_reference(const Json& root, std::string_view path) {
  if (!path.starts_with('#')) return nullptr;
  path.remove_prefix(1);
  const Json* at = &root;
  while (at != nullptr && path.starts_with('/')) {
    const auto end = path.find('/', 1);
    std::string key(path.substr(1, end == std::string_view::npos ? end : end - 1));
    for (auto i = key.find('~'); i != std::string::npos && i + 1 < key.size();
         i = key.find('~', i + 1)) {
      key.replace(i, 2, key[i + 1] == '1' ? "/" : "~");
    }
    at = at->find(key);
    path.remove_prefix(end == std::string_view::npos ? path.size() : end);
  }
  return at;
}

void Schema::follow_reference() {
  for (int i = 0; i < kMaxSchemaDepth; ++i) {
    const Json* reference = find("$ref");
    if (reference == nullptr || !reference->is(JsonKind::kString)) return;
    at_ = local_reference(root_.json, reference->text);
  }
  at_ = nullptr;
}

// What type, enum and const say, or what items and properties suggest.
Types Schema::own_types() const {
  if (const Json* type = find("type")) {
    if (!type->is(JsonKind::kArray)) return types_named(*type);
    Types all = 0;
    for (const Json& one : type->items) all |= types_named(one);
    return all == 0 ? kAny : all;
  }
  if (const Json* only = find("const")) return types_of(*only);
  if (const Json* list = find_list("enum"); list != nullptr && !list->items.empty()) {
    Types all = 0;
    for (const Json& one : list->items) all |= types_of(one);
    return all;
  }
  if (find("properties") != nullptr) return kObject;
  return find("items") != nullptr ? kArray : kAny;
}

Types Schema::types() const {
  Types all = own_types();
  for (const char* key : {"anyOf", "oneOf"}) {
    if (const Json* list = find_list(key); list != nullptr && !list->items.empty()) {
      Types any = 0;
      for (const Json& one : list->items) any |= inner(&one).types();
      all &= any;
    }
  }
  if (const Json* list = find_list("allOf")) {
    for (const Json& one : list->items) all &= inner(&one).types();
  }
  const Json* nullable = find("nullable");
  if (nullable != nullptr && nullable->is(JsonKind::kBool) && nullable->text == "true")
    all |= kNull;
  return all;
}

bool Schema::is_listed(const Json& value) const {
  const std::string text = dump_json(value);
  if (const Json* only = find("const")) return dump_json(*only) == text;
  const Json* list = find_list("enum");
  return list == nullptr || std::any_of(list->items.begin(), list->items.end(),
                                        [&](const Json& one) { return dump_json(one) == text; });
}

bool Schema::lists_string(std::string_view text) const {
  const bool lists = find("const") != nullptr || find_list("enum") != nullptr;
  return lists && is_listed(Json::string(std::string(text)));
}

std::optional<Json> Schema::fit(const Json& value) const {
  if (at_ == nullptr || !at_->is(JsonKind::kObject)) return value;
  const Types wanted = types();
  Json out = value;
  if (value.is(JsonKind::kReal) && (wanted & kNumber) == 0) {
    out.text = whole_digits(value.text);
    out.kind = JsonKind::kInteger;
    if (out.text.empty()) return std::nullopt;
  }
  if ((types_of(out) & wanted) == 0) return std::nullopt;
  if (value.is(JsonKind::kNull) && find("nullable") != nullptr) return out;
  if (!is_listed(out)) return std::nullopt;
  for (const char* key : {"anyOf", "oneOf"}) {
    const Json* list = find_list(key);
    if (list == nullptr || list->items.empty()) continue;
    auto chosen = fit_alternative(*list, out);
    if (!chosen) return std::nullopt;
    out = *std::move(chosen);
  }
  if (const Json* list = find_list("allOf")) {
    for (const Json& one : list->items) {
      auto inside = inner(&one).fit(out);
      if (!inside) return std::nullopt;
      out = *std::move(inside);
    }
  }
  return fit_items(out);
}

std::optional<Json> Schema::fit_alternative(const Json& list, const Json& value) const {
  for (const Json& one : list.items) {
    if (auto fitted = inner(&one).fit(value)) return fitted;
  }
  return std::nullopt;
}

std::optional<Json> Schema::fit_items(const Json& value) const {
  Json out = value;
  for (std::size_t i = 0; i < out.items.size(); ++i) {
    const Schema item = value.is(JsonKind::kArray) ? inner(find("items")) : property(value.keys[i]);
    auto fitted = item.fit(out.items[i]);
    if (!fitted) return std::nullopt;
    out.items[i] = *std::move(fitted);
  }
  return out;
}

Schema Schema::property(std::string_view name) const {
  const Json* properties = find("properties");
  const Json* one = properties == nullptr ? nullptr : properties->find(name);
  return inner(one != nullptr ? one : find("additionalProperties"));
}

Json parameters_of(const Json& tool) {
  const Json* wrapped = tool.find("function");
  const Json& function = wrapped == nullptr ? tool : *wrapped;
  for (const char* key : {"parameters", "input_schema"}) {
    if (const Json* schema = function.find(key)) return *schema;
  }
  return {};
}

std::string string_json(std::string_view text) {
  return dump_json(Json::string(std::string(text)));
}

}  // namespace

ToolSchemas::ToolSchemas(const std::vector<ToolSpec>& tools) {
  for (const ToolSpec& tool : tools) {
    const Json* wrapped = tool.json.find("function");
    const Json* name = (wrapped == nullptr ? tool.json : *wrapped).find("name");
    if (name == nullptr || !name->is(JsonKind::kString)) continue;
    tools_.push_back({name->text, parameters_of(tool.json)});
  }
}

const ToolSchemas::Tool* ToolSchemas::find(std::string_view name) const {
  const auto at = std::find_if(tools_.begin(), tools_.end(),
                               [&](const Tool& tool) { return tool.name == name; });
  return at == tools_.end() ? nullptr : &*at;
}

bool ToolSchemas::is_text(std::string_view tool, std::string_view parameter) const {
  const Tool* found = find(tool);
  if (found == nullptr) return false;
  SchemaRoot root{found->parameters};
  return Schema(root, &root.json, 0).property(parameter).types() == kString;
}

std::string ToolSchemas::typed_value(std::string_view tool, std::string_view parameter,
                                     std::string_view text) const {
  const Json none;
  const Tool* found = find(tool);
  SchemaRoot root{found == nullptr ? none : found->parameters};
  const Schema schema = Schema(root, &root.json, 0).property(parameter);
  const Types types = schema.types();
  if (types == kString || schema.lists_string(text)) return string_json(text);
  const auto value = parse_json(text);
  if (!value || value->is(JsonKind::kString)) return string_json(text);
  if (const auto fitted = schema.fit(*value)) return dump_json(*fitted);
  const bool right_outside = (types_of(*value) & types) != 0 && (types & kString) == 0;
  return right_outside ? dump_json(*value) : string_json(text);
}

}  // namespace lily
