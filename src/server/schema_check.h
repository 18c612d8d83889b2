// A JSON schema before it becomes a grammar: what means nothing, what nothing fits, what cannot be
// expressed and what would grow without bound is refused by its place.
#pragma once

#include <string>

#include "base/result.h"
#include "text/chat_json.h"

namespace lily::server {

// The schema with what it leaves open made explicit: an object whose properties are listed has no
// others (a stricter promise than the schema's own), one without a list may have any.
// kInvalidArgument, kUnsupported: "response_format.json_schema.schema.properties.a: ...".
Result<Json> check_schema(const Json& schema, const std::string& place);

}  // namespace lily::server
