// Writing JSON values as code, for replies.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "text/chat_json.h"

namespace lily::server {

Json json_null();
Json json_bool(bool value);
Json json_int(std::int64_t value);
Json json_real(double value);  // null where it is not finite: JSON has no word for it.
inline Json json_text(std::string value) {
  return Json::string(std::move(value));
}
Json json_object(std::initializer_list<std::pair<const char*, Json>> fields);
Json json_list(std::vector<Json> items = {});
Json json_texts(const std::vector<std::string>& texts);

inline bool is_null(const Json* value) {
  return value == nullptr || value->is(JsonKind::kNull);
}
inline bool is_true(const Json* value) {
  return value != nullptr && value->is(JsonKind::kBool) && value->text == "true";
}
// The text under a key; empty where there is none.
std::string_view text_at(const Json& object, std::string_view key);

}  // namespace lily::server
