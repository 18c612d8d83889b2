// One string as JSON, for lines that a person reads and a script may parse.
#pragma once

#include <string>
#include <string_view>

#include "text/chat_json.h"

namespace lily::cli {

inline std::string json_text(std::string_view text) {
  std::string out(1, '"');
  append_json_escaped(text, out);
  out += '"';
  return out;
}

}  // namespace lily::cli
