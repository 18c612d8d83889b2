// Three shapes of the same wish.
#include "server/response_format.h"

#include "server/json_build.h"
#include "server/schema_check.h"
#include "text/chat_parse.h"

namespace lily::server {

Result<std::optional<JsonFormat>> read_response_format(const Json* format,
                                                       const std::string& place) {
  if (is_null(format)) return std::optional<JsonFormat>();
  if (!format->is(JsonKind::kObject)) return wrong_kind(place, *format, "an object");
  const auto type = text_at(*format, "type");
  if (type == "text") return std::optional<JsonFormat>();
  if (type == "json_object") {
    LILY_TRY(auto any, check_schema(json_object({{"type", json_text("object")}}), place));
    return std::optional(JsonFormat{place, std::move(any)});
  }
  if (type != "json_schema") {
    return Error{ErrorCode::kInvalidArgument, place + ".type: found " + in_quotes(type) +
                                                  ", expected text, json_object or json_schema"};
  }
  const Json* wrapped = format->find("json_schema");
  const std::string inside = is_null(wrapped) ? place : place + ".json_schema";
  const Json* schema = (is_null(wrapped) ? *format : *wrapped).find("schema");
  if (is_null(schema)) return Error{ErrorCode::kInvalidArgument, inside + ".schema: missing"};
  LILY_TRY(auto checked, check_schema(*schema, inside + ".schema"));
  return std::optional(JsonFormat{inside + ".schema", std::move(checked)});
}

}  // namespace lily::server
