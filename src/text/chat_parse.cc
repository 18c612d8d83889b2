// JSON to Conversation, one function per thing in the grammar.
#include "text/chat_parse.h"

#include <array>
#include <utility>

namespace lily {
namespace {

constexpr std::array<std::string_view, 4> kRoleNames{"system", "user", "assistant", "tool"};

Error too_many(std::string_view place, std::size_t found, std::size_t most) {
  return Error{ErrorCode::kTooLarge, std::string(place) + ": " + std::to_string(found) +
                                         " entries, at most " + std::to_string(most)};
}

Result<Role> read_role(const Json& message) {
  const Json* role = message.find("role");
  if (role == nullptr) return Error{ErrorCode::kInvalidArgument, "role: missing"};
  if (!role->is(JsonKind::kString)) return wrong_kind("role", *role, "a string");
  for (std::size_t i = 0; i < kRoleNames.size(); ++i) {
    if (role->text == kRoleNames[i]) return static_cast<Role>(i);
  }
  return Error{ErrorCode::kInvalidArgument, "role: found " + in_quotes(role->text) +
                                                ", expected system, user, assistant or tool"};
}

// The template's order of tests: a picture by key or type, else a video, else text by key (a type
// alone is not enough).
Result<ContentPart> read_part(const Json& part) {
  using Kind = ContentPart::Kind;
  if (!part.is(JsonKind::kObject)) return wrong_kind("", part, "an object");
  const Json* type = part.find("type");
  const auto is_type = [&](std::string_view name) {
    return type != nullptr && type->is(JsonKind::kString) && type->text == name;
  };
  if (part.find("image") != nullptr || part.find("image_url") != nullptr || is_type("image")) {
    return ContentPart{Kind::kImage, {}};
  }
  if (part.find("video") != nullptr || is_type("video")) return ContentPart{Kind::kVideo, {}};
  const Json* text = part.find("text");
  if (text == nullptr) {
    const std::string found =
        type != nullptr && type->is(JsonKind::kString) ? "type " + in_quotes(type->text) : "none";
    return Error{ErrorCode::kInvalidArgument,
                 ": expected a text, image or video part, found " + found};
  }
  if (!text->is(JsonKind::kString)) return wrong_kind(".text", *text, "a string");
  return ContentPart{Kind::kText, text->text};
}

Result<std::vector<ContentPart>> read_content(const Json* content) {
  std::vector<ContentPart> parts;
  if (content == nullptr || content->is(JsonKind::kNull)) return parts;
  if (content->is(JsonKind::kString)) {
    parts.push_back({ContentPart::Kind::kText, content->text});
    return parts;
  }
  if (!content->is(JsonKind::kArray))
    return wrong_kind("content", *content, "a string, a list or null");
  if (content->items.size() > kMaxParts)
    return too_many("content", content->items.size(), kMaxParts);
  for (std::size_t i = 0; i < content->items.size(); ++i) {
    auto part = read_part(content->items[i]);
    if (!part) return within(item_place("content", i), std::move(part).error());
    parts.push_back(*std::move(part));
  }
  return parts;
}

// {"function": {"name", "arguments"}} or {"name", "arguments"}.
Result<ToolCall> read_call(const Json& entry) {
  if (!entry.is(JsonKind::kObject)) return wrong_kind("", entry, "an object");
  const Json* wrapped = entry.find("function");
  const std::string at = wrapped == nullptr ? "" : ".function";
  const Json& function = wrapped == nullptr ? entry : *wrapped;
  if (!function.is(JsonKind::kObject)) return wrong_kind(at, function, "an object");
  const Json* name = function.find("name");
  if (name == nullptr) return Error{ErrorCode::kInvalidArgument, at + ".name: missing"};
  if (!name->is(JsonKind::kString)) return wrong_kind(at + ".name", *name, "a string");
  ToolCall call{name->text};
  const Json* arguments = function.find("arguments");
  if (arguments == nullptr) return call;
  if (!arguments->is(JsonKind::kObject))
    return wrong_kind(at + ".arguments", *arguments, "an object");
  call.arguments = *arguments;
  return call;
}

// The template reads a list and takes nothing else for calls; a string, which it would spell out,
// is refused.
Result<std::vector<ToolCall>> read_calls(const Json* calls) {
  std::vector<ToolCall> out;
  if (calls == nullptr) return out;
  if (calls->is(JsonKind::kString) && !calls->text.empty())
    return wrong_kind("tool_calls", *calls, "a list");
  if (!calls->is(JsonKind::kArray)) return out;
  if (calls->items.size() > kMaxToolCalls)
    return too_many("tool_calls", calls->items.size(), kMaxToolCalls);
  for (std::size_t i = 0; i < calls->items.size(); ++i) {
    auto call = read_call(calls->items[i]);
    if (!call) return within(item_place("tool_calls", i), std::move(call).error());
    out.push_back(*std::move(call));
  }
  return out;
}

Result<std::vector<Message>> read_messages(const Json& messages) {
  if (!messages.is(JsonKind::kArray)) return wrong_kind("messages", messages, "a list");
  if (messages.items.size() > kMaxMessages)
    return too_many("messages", messages.items.size(), kMaxMessages);
  std::vector<Message> out;
  for (std::size_t i = 0; i < messages.items.size(); ++i) {
    auto message = read_message(messages.items[i]);
    if (!message) return within(item_place("messages", i) + ".", std::move(message).error());
    out.push_back(*std::move(message));
  }
  return out;
}

struct OptionRow {
  std::string_view name;
  bool ChatOptions::*field;
};
constexpr std::array kOptions{
    OptionRow{"add_generation_prompt", &ChatOptions::add_generation_prompt},
    OptionRow{"enable_thinking", &ChatOptions::enable_thinking},
    OptionRow{"preserve_thinking", &ChatOptions::preserve_thinking},
    OptionRow{"add_vision_id", &ChatOptions::add_vision_id},
};

// Sets one option; null leaves the default.
Result<void> read_option(std::string_view name, const Json& value, ChatOptions& out) {
  for (const OptionRow& row : kOptions) {
    if (row.name != name) continue;
    if (value.is(JsonKind::kNull)) return {};
    if (!value.is(JsonKind::kBool))
      return wrong_kind("options." + std::string(name), value, "true or false");
    out.*row.field = value.text == "true";
    return {};
  }
  return Error{
      ErrorCode::kInvalidArgument,
      "options: unknown key " + in_quotes(name) +
          ", expected add_generation_prompt, enable_thinking, preserve_thinking or add_vision_id"};
}

Result<void> read_entry(std::string_view key, const Json& value, Conversation& out) {
  if (key == "messages") {
    LILY_TRY(out.messages, read_messages(value));
  } else if (key == "tools") {
    LILY_TRY(out.tools, read_tools(value));
  } else if (key == "options") {
    LILY_TRY(out.options, read_chat_options(value));
  } else {
    return Error{ErrorCode::kInvalidArgument, "conversation: unknown key " + in_quotes(key) +
                                                  ", expected messages, tools or options"};
  }
  return {};
}

}  // namespace

std::string_view role_name(Role role) {
  return kRoleNames[static_cast<std::size_t>(role)];
}

Error wrong_kind(std::string_view place, const Json& found, std::string_view expected) {
  return Error{ErrorCode::kInvalidArgument, std::string(place) + ": found " +
                                                std::string(kind_name(found.kind)) + ", expected " +
                                                std::string(expected)};
}

Error within(std::string_view place, Error error) {
  error.message.insert(0, place);
  return error;
}

std::string item_place(std::string_view list, std::size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

Result<Message> read_message(const Json& json) {
  if (!json.is(JsonKind::kObject))
    return wrong_kind("role", json, "an object with a role around it");
  Message message;
  LILY_TRY(message.role, read_role(json));
  LILY_TRY(message.content, read_content(json.find("content")));
  if (message.role != Role::kAssistant)
    return message;  // The template looks for the rest there only.
  if (const Json* reasoning = json.find("reasoning_content");
      reasoning != nullptr && reasoning->is(JsonKind::kString)) {
    message.reasoning = reasoning->text;
  }
  LILY_TRY(message.tool_calls, read_calls(json.find("tool_calls")));
  return message;
}

Result<std::vector<ToolSpec>> read_tools(const Json& json) {
  std::vector<ToolSpec> tools;
  if (json.is(JsonKind::kNull)) return tools;
  if (!json.is(JsonKind::kArray)) return wrong_kind("tools", json, "a list or null");
  if (json.items.size() > kMaxTools) return too_many("tools", json.items.size(), kMaxTools);
  for (std::size_t i = 0; i < json.items.size(); ++i) {
    if (!json.items[i].is(JsonKind::kObject))
      return wrong_kind(item_place("tools", i), json.items[i], "an object");
    tools.push_back({json.items[i]});
  }
  return tools;
}

Result<ChatOptions> read_chat_options(const Json& json) {
  ChatOptions options;
  if (json.is(JsonKind::kNull)) return options;
  if (!json.is(JsonKind::kObject)) return wrong_kind("options", json, "an object");
  for (std::size_t i = 0; i < json.keys.size(); ++i) {
    LILY_RETURN_IF_ERROR(read_option(json.keys[i], json.items[i], options));
  }
  return options;
}

Result<Conversation> parse_conversation(std::string_view json) {
  LILY_TRY(const Json root, parse_json(json));
  if (!root.is(JsonKind::kObject)) return wrong_kind("conversation", root, "an object");
  Conversation out;
  for (std::size_t i = 0; i < root.keys.size(); ++i) {
    LILY_RETURN_IF_ERROR(read_entry(root.keys[i], root.items[i], out));
  }
  return out;
}

}  // namespace lily
