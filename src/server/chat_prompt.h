// From messages, tools and options to prompt tokens: the part that the doors for chats share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/chat.h"
#include "server/fields.h"
#include "server/tool_list.h"

namespace lily::server {

// What a request says about thinking, in whichever words.
struct ThinkingWish {
  std::optional<bool> enabled;
  bool preserve = false;
};

// enable_thinking, preserve_thinking, chat_template_kwargs and reasoning_effort.
// kInvalidArgument where two of them contradict each other.
Result<ThinkingWish> read_thinking(Fields& fields);
// Adds one more voice: kInvalidArgument where it contradicts what was said before.
Result<void> add_thinking(ThinkingWish& wish, bool enabled, std::string_view place);
// What "reasoning_effort" means: "none" is off, the other levels are on. Nothing: no such level.
std::optional<bool> thinking_of_effort(std::string_view effort);

// kUnsupported, with the place of the part: pictures, sound, video and files are not served, and
// are not looked into. `messages` in any door's shape.
Result<void> refuse_media(const Json& messages, const std::string& place);

struct ChatInput {
  Conversation conversation;
  std::vector<std::string> ignored;
};
// `messages` in the shape of chat completions.
Result<ChatInput> read_conversation(const Json* messages, const ToolList& tools,
                                    const ThinkingWish& thinking, bool thinking_by_default);

}  // namespace lily::server
