// The types of tools' arguments: from the text that the model wrote between a parameter's tags to a
// JSON value.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_types.h"

namespace lily {

// The tools of one request by name. docs/CHAT_FORMAT.md states the typing rules.
class ToolSchemas {
 public:
  ToolSchemas() = default;
  explicit ToolSchemas(const std::vector<ToolSpec>& tools);

  bool empty() const { return tools_.empty(); }
  bool contains(std::string_view tool) const { return find(tool) != nullptr; }

  // Whether a value can be nothing but a string, so that its text can be passed on before it is
  // complete.
  bool is_text(std::string_view tool, std::string_view parameter) const;

  // The JSON text of a value. Never fails: what is not exactly of the schema's type stays a string.
  std::string typed_value(std::string_view tool, std::string_view parameter,
                          std::string_view text) const;

 private:
  struct Tool {
    std::string name;
    Json parameters;  // The JSON schema of the arguments; null when the tool gives none.
  };
  const Tool* find(std::string_view name) const;

  std::vector<Tool> tools_;
};

}  // namespace lily
