// The tools of a request, as the template takes them: functions. Custom tools become functions of
// one text, namespaces are opened, hosted tools are left out and said to be.
#pragma once

#include <string>
#include <vector>

#include "text/chat_types.h"
#include "text/tool_call_parser.h"

namespace lily::server {

struct ToolList {
  std::vector<ToolSpec> specs;      // What the template prints.
  std::vector<std::string> custom;  // Names of those that take one text.
  struct Namespaced {
    std::string name, space;
  };
  std::vector<Namespaced> namespaced;  // Functions out of a namespace.
  std::vector<std::string> left_out;   // "tools[3]: web_search"

  bool is_custom(std::string_view name) const;
  std::string_view space_of(std::string_view name) const;  // Empty: none.
  bool contains(std::string_view name) const;
};

inline constexpr const char* kCustomArgument = "input";

// Errors: kInvalidArgument, kTooLarge with the tool's place. `tools` is nullptr or null: none.
Result<ToolList> read_tool_list(const Json* tools);

// Which calls an answer may, or must, hold.
struct ToolChoice {
  enum class Kind { kAuto, kNone, kAny, kNamed };
  Kind kind = Kind::kAuto;
  std::string name;  // Of kNamed.
};

// "auto", "none", "required", {"type": "function", "function": {"name": ...}} and their relatives
// ({"type": "any"}, {"type": "tool", "name": ...}). A tool that the request does not have, or a
// call that no tool is there for, is kInvalidArgument.
Result<ToolChoice> read_tool_choice(const Json* choice, const ToolList& tools);

}  // namespace lily::server
