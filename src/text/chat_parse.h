// Reads conversations from JSON. Strict: what the template refuses is refused here or by
// render_chat, by name and place
// ("messages[3].content[1]: ..."). What clients send instead of it is the business of
// chat_normalise.h.
#pragma once

#include <cstddef>
#include <string_view>

#include "text/chat_types.h"

namespace lily {

// Bounds; more is kTooLarge. Those of the JSON text itself are in chat_json.h.
inline constexpr std::size_t kMaxMessages = 65'536;
inline constexpr std::size_t kMaxParts = 65'536;     // Of one message.
inline constexpr std::size_t kMaxToolCalls = 4'096;  // Of one message.
inline constexpr std::size_t kMaxTools = 4'096;

// Reads {"messages": [...], "tools": [...] or null, "options": {...}}; other keys are refused.
// docs/CHAT_FORMAT.md lists what a message may hold. Errors: kInvalidArgument, kTooLarge.
Result<Conversation> parse_conversation(std::string_view json);

// The parts of the above, for callers that hold the JSON already. Errors begin with the place
// inside the argument.
Result<Message> read_message(const Json& json);
Result<std::vector<ToolSpec>> read_tools(const Json& json);
Result<ChatOptions> read_chat_options(const Json& json);

// Refuses a value for its kind: "content: found a number, expected an object".
Error wrong_kind(std::string_view place, const Json& found, std::string_view expected);

// The same error, placed inside something larger: within("messages[3].", e).
Error within(std::string_view place, Error error);
std::string item_place(std::string_view list, std::size_t index);  // "messages[3]"

}  // namespace lily
