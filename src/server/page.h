// Files that lie in the program: the chat page and the description of the API.
#pragma once

#include <string_view>

#include "base/result.h"
#include "server/http.h"

namespace lily::server {

// "/", "/page.css", "/page.js", "/openapi.json".
Result<HttpReply> page_file(std::string_view path);

}  // namespace lily::server
