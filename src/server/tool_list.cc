// One kind of tool after the other.
#include "server/tool_list.h"

#include <algorithm>

#include "server/json_build.h"
#include "server/limits.h"
#include "text/chat_parse.h"

namespace lily::server {
namespace {

constexpr std::size_t kMaxToolNameBytes = 256;

// Levels of lists and objects.
std::size_t depth_of(const Json& value) {
  std::size_t deepest = 0;
  for (const Json& item : value.items) deepest = std::max(deepest, depth_of(item));
  return value.is(JsonKind::kArray) || value.is(JsonKind::kObject) ? deepest + 1 : 0;
}

Result<void> check_name(const std::string& place, const Json* name) {
  if (is_null(name)) return Error{ErrorCode::kInvalidArgument, place + ".name: missing"};
  if (!name->is(JsonKind::kString)) return wrong_kind(place + ".name", *name, "a string");
  const bool fits = !name->text.empty() && name->text.size() <= kMaxToolNameBytes &&
                    name->text.find_first_of("<>\r\n") == std::string::npos;
  if (fits) return {};
  return Error{ErrorCode::kInvalidArgument,
               place + ".name: found " + in_quotes(name->text) +
                   ", expected 1 .. 256 bytes without <, > and line ends"};
}

Result<void> check_schema(const std::string& place, const Json* schema) {
  if (is_null(schema)) return {};
  if (!schema->is(JsonKind::kObject)) return wrong_kind(place, *schema, "a JSON schema, an object");
  const std::size_t depth = depth_of(*schema);
  if (depth <= kMaxSchemaDepth) return {};
  return Error{ErrorCode::kInvalidArgument, place + ": " + std::to_string(depth) +
                                                " levels deep, at most " +
                                                std::to_string(kMaxSchemaDepth)};
}

Json function_tool(Json function) {
  return json_object({{"type", json_text("function")}, {"function", std::move(function)}});
}

// Name, description and schema, under whichever names the door uses for them.
Json bare_function(const Json& tool) {
  Json function = Json::object();
  for (const char* key : {"name", "description", "parameters"}) {
    if (const Json* value = tool.find(key); !is_null(value)) function.set(key, *value);
  }
  if (const Json* schema = tool.find("input_schema"); !is_null(schema)) {
    function.set("parameters", *schema);
  }
  return function;
}

Json custom_function(const Json& tool) {
  Json function = Json::object();
  function.set("name", *tool.find("name"));
  if (const Json* about = tool.find("description"); !is_null(about))
    function.set("description", *about);
  Json input = json_object({{"type", json_text("string")}});
  Json properties = json_object({{kCustomArgument, std::move(input)}});
  function.set("parameters", json_object({{"type", json_text("object")},
                                          {"properties", std::move(properties)},
                                          {"required", json_texts({kCustomArgument})}}));
  return function;
}

class Reader {
 public:
  Result<void> read(const std::string& place, const Json& tool, int depth) {
    if (!tool.is(JsonKind::kObject)) return wrong_kind(place, tool, "an object");
    const std::string_view type = text_at(tool, "type");
    const Json* function = tool.find("function");
    if (function != nullptr && (type.empty() || type == "function")) {
      return add_function(place + ".function", *function, tool);
    }
    if (type == "custom" && tool.find("input_schema") == nullptr) return add_custom(place, tool);
    if (type == "namespace" && depth == 0) return add_namespace(place, tool);
    if (type.empty() || type == "function" || type == "custom") {
      return add_function(place, tool, function_tool(bare_function(tool)));
    }
    out_.left_out.push_back(place + ": " + std::string(type.substr(0, 64)) + " is not run here");
    return {};
  }

  ToolList finish() { return std::move(out_); }

 private:
  // `printed` is what the template shows: the client's own object where it has the usual form.
  Result<void> add_function(const std::string& place, const Json& function, Json printed) {
    if (!function.is(JsonKind::kObject)) return wrong_kind(place, function, "an object");
    LILY_RETURN_IF_ERROR(check_name(place, function.find("name")));
    LILY_RETURN_IF_ERROR(check_schema(place + ".parameters", function.find("parameters")));
    LILY_RETURN_IF_ERROR(check_schema(place + ".input_schema", function.find("input_schema")));
    if (!space_.empty()) out_.namespaced.push_back({function.find("name")->text, space_});
    out_.specs.push_back({std::move(printed)});
    return {};
  }

  // {"type": "custom", "name": ...}, or with the name one level further in.
  Result<void> add_custom(const std::string& place, const Json& tool) {
    const Json* inner = tool.find("custom");
    const Json& described = inner != nullptr && inner->is(JsonKind::kObject) ? *inner : tool;
    LILY_RETURN_IF_ERROR(check_name(place, described.find("name")));
    out_.custom.push_back(described.find("name")->text);
    out_.specs.push_back({function_tool(custom_function(described))});
    return {};
  }

  Result<void> add_namespace(const std::string& place, const Json& tool) {
    LILY_RETURN_IF_ERROR(check_name(place, tool.find("name")));
    const Json* inner = tool.find("tools");
    if (is_null(inner)) return {};
    if (!inner->is(JsonKind::kArray)) return wrong_kind(place + ".tools", *inner, "a list");
    space_ = tool.find("name")->text;
    for (std::size_t i = 0; i < inner->items.size(); ++i) {
      LILY_RETURN_IF_ERROR(read(item_place(place + ".tools", i), inner->items[i], 1));
    }
    space_.clear();
    return {};
  }

  ToolList out_;
  std::string space_;
};

std::string_view name_of(const Json& spec) {
  return text_at(*spec.find("function"), "name");
}

Result<ToolChoice> named(std::string_view name, const ToolList& tools) {
  if (tools.contains(name)) return ToolChoice{ToolChoice::Kind::kNamed, std::string(name)};
  return Error{ErrorCode::kInvalidArgument,
               "tool_choice: " + in_quotes(name) + " is none of the request's tools"};
}

}  // namespace

bool ToolList::is_custom(std::string_view name) const {
  return std::find(custom.begin(), custom.end(), name) != custom.end();
}

std::string_view ToolList::space_of(std::string_view name) const {
  const auto at = std::find_if(namespaced.begin(), namespaced.end(),
                               [&](const Namespaced& one) { return one.name == name; });
  return at == namespaced.end() ? std::string_view() : std::string_view(at->space);
}

bool ToolList::contains(std::string_view name) const {
  return std::any_of(specs.begin(), specs.end(),
                     [&](const ToolSpec& spec) { return name_of(spec.json) == name; });
}

Result<ToolList> read_tool_list(const Json* tools) {
  if (is_null(tools)) return ToolList{};
  if (!tools->is(JsonKind::kArray)) return wrong_kind("tools", *tools, "a list or null");
  if (tools->items.size() > kMaxTools) {
    return Error{ErrorCode::kTooLarge, "tools: " + std::to_string(tools->items.size()) +
                                           " entries, at most " + std::to_string(kMaxTools)};
  }
  Reader reader;
  for (std::size_t i = 0; i < tools->items.size(); ++i) {
    LILY_RETURN_IF_ERROR(reader.read(item_place("tools", i), tools->items[i], 0));
  }
  return reader.finish();
}

Result<ToolChoice> read_tool_choice(const Json* choice, const ToolList& tools) {
  using Kind = ToolChoice::Kind;
  if (is_null(choice)) return ToolChoice{};
  const bool word = choice->is(JsonKind::kString);
  if (!word && !choice->is(JsonKind::kObject)) {
    return wrong_kind("tool_choice", *choice, "a string or an object");
  }
  const std::string_view type = word ? std::string_view(choice->text) : text_at(*choice, "type");
  if (type == "auto") return ToolChoice{};
  if (type == "none") return ToolChoice{Kind::kNone, {}};
  if (type == "required" || type == "any") {
    if (!tools.specs.empty()) return ToolChoice{Kind::kAny, {}};
    return Error{ErrorCode::kInvalidArgument,
                 "tool_choice: a call is asked for, and there are no tools"};
  }
  if (!word && (type == "function" || type == "tool" || type == "custom")) {
    const Json* inner = choice->find(type == "custom" ? "custom" : "function");
    const bool nested = inner != nullptr && inner->is(JsonKind::kObject);
    return named(text_at(nested ? *inner : *choice, "name"), tools);
  }
  return Error{ErrorCode::kInvalidArgument,
               "tool_choice: found " + in_quotes(type) +
                   ", expected auto, none, required or a function by its name"};
}

}  // namespace lily::server
