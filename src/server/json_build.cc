// Scalars as JSON spells them.
#include "server/json_build.h"

#include <array>
#include <charconv>
#include <cmath>

namespace lily::server {

Json json_null() {
  return Json{JsonKind::kNull, "null", {}, {}};
}
Json json_bool(bool value) {
  return Json{JsonKind::kBool, value ? "true" : "false", {}, {}};
}
Json json_int(std::int64_t value) {
  return Json{JsonKind::kInteger, std::to_string(value), {}, {}};
}

Json json_real(double value) {
  if (!std::isfinite(value)) return json_null();
  std::array<char, 40> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return Json{JsonKind::kReal, std::string(buffer.data(), end), {}, {}};
}

Json json_object(std::initializer_list<std::pair<const char*, Json>> fields) {
  Json out = Json::object();
  for (const auto& [key, value] : fields) {
    out.keys.emplace_back(key);
    out.items.push_back(value);
  }
  return out;
}

Json json_list(std::vector<Json> items) {
  Json out = Json::array();
  out.items = std::move(items);
  return out;
}

Json json_texts(const std::vector<std::string>& texts) {
  Json out = Json::array();
  for (const auto& text : texts) out.items.push_back(json_text(text));
  return out;
}

std::string_view text_at(const Json& object, std::string_view key) {
  const Json* found = object.find(key);
  return found != nullptr && found->is(JsonKind::kString) ? std::string_view(found->text)
                                                          : std::string_view();
}

}  // namespace lily::server
