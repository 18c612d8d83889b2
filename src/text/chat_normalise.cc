// Each message is rewritten to the strict form, read by chat_parse.h, and then placed.
#include "text/chat_normalise.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/chat_parse.h"
#include "text/chat_text.h"

namespace lily {
namespace {

constexpr std::array<std::string_view, 9> kMessageKeys{
    "role",         "content",    "reasoning_content",
    "reasoning",    "tool_calls", "function_call",
    "tool_call_id", "id",         "type"};

bool is_empty(const Json* value) {
  return value == nullptr || value->is(JsonKind::kNull) ||
         (value->is(JsonKind::kArray) && value->items.empty());
}

Json strict_role(const Json& role) {
  if (role.is(JsonKind::kString) && role.text == "developer") return Json::string("system");
  if (role.is(JsonKind::kString) && role.text == "function") return Json::string("tool");
  return role;
}

// Text parts by their other names; everything else is left to the strict reader.
Json strict_part(const Json& part) {
  const Json* type = part.find("type");
  if (type == nullptr || !type->is(JsonKind::kString)) return part;
  const bool refusal = type->text == "refusal";
  if (!refusal && type->text != "input_text" && type->text != "output_text") {
    if (type->text != "input_image") return part;
    Json image = Json::object();
    image.set("type", Json::string("image"));
    return image;
  }
  const Json* text = part.find(refusal ? "refusal" : "text");
  Json strict = Json::object();
  if (text != nullptr) strict.set("text", *text);
  return strict;
}

Json strict_content(const Json& content) {
  if (!content.is(JsonKind::kArray)) return content;
  Json parts = Json::array();
  for (const Json& part : content.items) parts.items.push_back(strict_part(part));
  return parts;
}

// One call with its arguments as an object; shape errors are left to the strict reader.
Result<Json> strict_call(const Json& entry) {
  Json call = entry;
  const auto wrapped = std::find(call.keys.begin(), call.keys.end(), "function");
  const bool bare = wrapped == call.keys.end();
  Json& function = bare ? call : call.items[static_cast<std::size_t>(wrapped - call.keys.begin())];
  const Json* arguments = function.find("arguments");
  if (arguments == nullptr) return call;
  auto object = normalise_arguments(*arguments);
  if (!object)
    return within(bare ? ".arguments" : ".function.arguments", std::move(object).error());
  function.set("arguments", *std::move(object));
  return call;
}

// tool_calls, or the older function_call as a list of one.
Result<Json> strict_calls(const Json& message) {
  const Json* calls = message.find("tool_calls");
  Json out = Json::array();
  if (is_empty(calls)) {
    const Json* older = message.find("function_call");
    if (is_empty(older)) return out;
    auto call = strict_call(*older);
    if (!call) return within("function_call", std::move(call).error());
    out.items.push_back(*std::move(call));
    return out;
  }
  if (!calls->is(JsonKind::kArray)) return wrong_kind("tool_calls", *calls, "a list or null");
  for (std::size_t i = 0; i < calls->items.size(); ++i) {
    auto call = strict_call(calls->items[i]);
    if (!call) return within(item_place("tool_calls", i), std::move(call).error());
    out.items.push_back(*std::move(call));
  }
  return out;
}

Result<void> set_reasoning(const Json& message, Json& strict) {
  for (const char* key : {"reasoning_content", "reasoning"}) {
    const Json* reasoning = message.find(key);
    if (is_empty(reasoning)) continue;
    if (!reasoning->is(JsonKind::kString)) return wrong_kind(key, *reasoning, "a string or null");
    strict.set("reasoning_content", *reasoning);
    return {};
  }
  return {};
}

Result<Message> normal_message(const Json& json) {
  if (!json.is(JsonKind::kObject)) return read_message(json);
  Json strict = Json::object();
  if (const Json* role = json.find("role")) strict.set("role", strict_role(*role));
  if (const Json* content = json.find("content")) strict.set("content", strict_content(*content));
  LILY_RETURN_IF_ERROR(set_reasoning(json, strict));
  LILY_TRY(Json calls, strict_calls(json));
  const bool has_calls = !calls.items.empty();
  strict.set("tool_calls", std::move(calls));
  LILY_TRY(Message message, read_message(strict));
  if (has_calls && message.role != Role::kAssistant) {
    return Error{ErrorCode::kInvalidArgument,
                 "tool_calls: only an assistant message can hold calls"};
  }
  return message;
}

class Normaliser {
 public:
  Result<void> add(const Json& json, std::size_t index) {
    auto message = normal_message(json);
    if (!message) return within(item_place("messages", index) + ".", std::move(message).error());
    note_ignored(json, index);
    if (message->role != Role::kSystem) {
      out_.conversation.messages.push_back(*std::move(message));
      return {};
    }
    return add_system(*message, index);
  }

  NormalisedConversation finish() {
    if (has_system_) {
      Message system{Role::kSystem, {{ContentPart::Kind::kText, std::move(system_)}}, {}, {}};
      auto& messages = out_.conversation.messages;
      messages.insert(messages.begin(), std::move(system));
    }
    return std::move(out_);
  }

  Conversation& conversation() { return out_.conversation; }

 private:
  Result<void> add_system(const Message& message, std::size_t index) {
    std::string joined;
    for (const ContentPart& part : message.content) {
      if (part.kind != ContentPart::Kind::kText) {
        return Error{
            ErrorCode::kInvalidArgument,
            item_place("messages", index) + ": a system message cannot hold pictures or videos"};
      }
      joined += part.text;
    }
    has_system_ = true;
    const std::string_view text = strip(joined);
    if (!system_.empty() && !text.empty()) system_ += "\n\n";
    system_ += text;
    return {};
  }

  void note_ignored(const Json& json, std::size_t index) {
    for (std::size_t i = 0; i < json.keys.size() && out_.ignored.size() < kMaxIgnored; ++i) {
      const std::string& key = json.keys[i];
      const bool known =
          std::find(kMessageKeys.begin(), kMessageKeys.end(), key) != kMessageKeys.end();
      if (!known && !is_empty(&json.items[i]))
        out_.ignored.push_back(item_place("messages", index) + "." + key);
    }
  }

  NormalisedConversation out_;
  bool has_system_ = false;
  std::string system_;  // All system texts so far, trimmed.
};

}  // namespace

Result<NormalisedConversation> normalise_conversation(const Json& messages, const Json* tools,
                                                      const ChatOptions& options) {
  if (!messages.is(JsonKind::kArray)) return wrong_kind("messages", messages, "a list");
  if (messages.items.size() > kMaxMessages) {
    return Error{ErrorCode::kTooLarge, "messages: " + std::to_string(messages.items.size()) +
                                           " entries, at most " + std::to_string(kMaxMessages)};
  }
  Normaliser normaliser;
  normaliser.conversation().options = options;
  for (std::size_t i = 0; i < messages.items.size(); ++i) {
    LILY_RETURN_IF_ERROR(normaliser.add(messages.items[i], i));
  }
  if (tools != nullptr) {
    LILY_TRY(normaliser.conversation().tools, read_tools(*tools));
  }
  return normaliser.finish();
}

Result<Json> normalise_arguments(const Json& arguments) {
  if (arguments.is(JsonKind::kObject)) return arguments;
  if (arguments.is(JsonKind::kNull)) return Json::object();
  if (!arguments.is(JsonKind::kString))
    return wrong_kind("", arguments, "an object or a string of JSON");
  const std::string_view text = strip(arguments.text);
  if (text.empty() || text == "null") return Json::object();
  if (auto parsed = parse_json(text); parsed && parsed->is(JsonKind::kObject)) return parsed;
  Json kept = Json::object();
  kept.set("arguments", arguments);
  return kept;
}

}  // namespace lily
