// A conversation as the chat template sees it: what the server and the command line build, and
// render_chat writes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/chat_json.h"

namespace lily {

enum class Role { kSystem, kUser, kAssistant, kTool };

// "system", "user", "assistant", "tool".
std::string_view role_name(Role role);

// One part of a message. A picture or a video is only a place in the text; its data is the caller's
// affair.
struct ContentPart {
  enum class Kind { kText, kImage, kVideo };
  Kind kind = Kind::kText;
  std::string text;  // Of a kText part.
};

struct ToolCall {
  std::string name;
  Json arguments = Json::object();  // Always an object.
};

struct Message {
  Role role = Role::kUser;
  std::vector<ContentPart> content;  // Joined without a separator; empty: null, missing.
  // Set, even to "": content is not searched for a think block.
  std::optional<std::string> reasoning;
  std::vector<ToolCall> tool_calls;  // Of an assistant.
};

// A tool as the client described it, wrapper included; the template prints it whole.
struct ToolSpec {
  Json json;
};

struct ChatOptions {
  bool add_generation_prompt = true;  // Open an assistant turn at the end.
  bool enable_thinking = true;        // False: that turn starts with an empty think block.
  bool preserve_thinking = false;     // True: keep all think blocks, not only since the question.
  bool add_vision_id = false;         // True: "Picture N: ", "Video N: " before placeholders.
};

struct Conversation {
  std::vector<Message> messages;
  std::vector<ToolSpec> tools;
  ChatOptions options;
};

}  // namespace lily
