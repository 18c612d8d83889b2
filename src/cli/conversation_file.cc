// Writing and reading conversations.
#include "cli/conversation_file.h"

#include "text/chat_parse.h"
#include "text/unicode.h"

namespace lily::cli {
namespace {

Json truth(bool value) {
  return Json{JsonKind::kBool, value ? "true" : "false", {}, {}};
}

Json call_json(const ToolCall& call) {
  Json function = Json::object();
  function.set("name", Json::string(call.name));
  function.set("arguments", call.arguments);
  Json out = Json::object();
  out.set("function", std::move(function));
  return out;
}

Json message_json(const Message& message) {
  Json out = Json::object();
  out.set("role", Json::string(std::string(role_name(message.role))));
  out.set("content", Json::string(text_of(message)));
  if (message.reasoning) out.set("reasoning_content", Json::string(*message.reasoning));
  if (message.tool_calls.empty()) return out;
  Json calls = Json::array();
  for (const auto& call : message.tool_calls) calls.items.push_back(call_json(call));
  out.set("tool_calls", std::move(calls));
  return out;
}

Json conversation_json(const Conversation& conversation) {
  Json messages = Json::array();
  for (const auto& message : conversation.messages) messages.items.push_back(message_json(message));
  Json options = Json::object();
  options.set("enable_thinking", truth(conversation.options.enable_thinking));
  options.set("preserve_thinking", truth(conversation.options.preserve_thinking));
  Json out = Json::object();
  out.set("messages", std::move(messages));
  out.set("options", std::move(options));
  if (conversation.tools.empty()) return out;
  Json tools = Json::array();
  for (const auto& tool : conversation.tools) tools.items.push_back(tool.json);
  out.set("tools", std::move(tools));
  return out;
}

}  // namespace

Message text_message(Role role, const std::string& text) {
  Message message;
  message.role = role;
  message.content.push_back({ContentPart::Kind::kText, repair_utf8(text)});
  return message;
}

std::string text_of(const Message& message) {
  std::string out;
  for (const auto& part : message.content) out += part.text;
  return out;
}

Result<void> save_conversation(const Path& path, const Conversation& conversation) {
  const std::string text = dump_json(conversation_json(conversation)) + "\n";
  LILY_TRY(auto file, AtomicFile::create(path));
  LILY_RETURN_IF_ERROR(file.append(std::as_bytes(std::span(text))));
  return file.commit();
}

Result<Conversation> load_conversation(const Path& path) {
  LILY_TRY(const auto text, read_file(path, kMaxJsonBytes));
  auto conversation = parse_conversation(text);
  if (conversation) return conversation;
  return Error{ErrorCode::kCorrupt,
               path.string() + ": no saved conversation: " + conversation.error().message};
}

}  // namespace lily::cli
