// A tool as its client sends it and, behind the first zero byte, the text of an argument in UTF-8: what comes out is always JSON, and
// a string where nothing else may be.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/chat_json.h"
#include "text/tool_schema.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view both(reinterpret_cast<const char*>(data), size);
  const auto border = both.find('\0');
  if (border == std::string_view::npos) return 0;
  const auto tool = lily::parse_json(both.substr(0, border));
  if (!tool) return 0;
  const lily::ToolSchemas schemas({{.json = *tool}});
  const auto text = both.substr(border + 1);
  if (!lily::parse_json(lily::dump_json(lily::Json::string(std::string(text))))) return 0;
  for (const char* parameter : {"p", "q", "absent"}) {
    const auto typed = lily::parse_json(schemas.typed_value("f", parameter, text));
    if (!typed) std::abort();
    if (schemas.is_text("f", parameter) && !typed->is(lily::JsonKind::kString)) std::abort();
  }
  return 0;
}
