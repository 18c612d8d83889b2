// What an answer has to look like, from each door's field to a constraint.
#pragma once

#include <optional>

#include "server/chat_prompt.h"
#include "text/chat_json.h"

namespace lily::server {

// "response_format" of chat completions: {"type": "text"}, {"type": "json_object"} or
// {"type": "json_schema", "json_schema": {"schema": ...}}. "text.format" and "output_config.format"
// have the schema one level further out. Nothing: any text. The schema is checked.
struct JsonFormat {
  std::string place;  // Of the field, for errors.
  Json schema;
};
Result<std::optional<JsonFormat>> read_response_format(const Json* format,
                                                       const std::string& place);

}  // namespace lily::server
