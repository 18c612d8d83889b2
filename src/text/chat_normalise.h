// Turns what clients really send into what the strict template takes; docs/CHAT_FORMAT.md lists the
// rules.
#pragma once

#include <string>
#include <vector>

#include "text/chat_types.h"

namespace lily {

struct NormalisedConversation {
  Conversation conversation;
  // Fields that were well-formed but have no place in the prompt ("messages[1].name"), at most
  // kMaxIgnored of them.
  std::vector<std::string> ignored;
};

inline constexpr std::size_t kMaxIgnored = 32;

// messages: the request's list. tools: its list, or nullptr. options: taken over as they are.
// Roles: developer is system, function is tool. System messages, wherever they stand, become one in
// front, their texts in order with an empty line between; content is a string, null, or a list of
// text, input_text, output_text, refusal, image and video parts; reasoning_content or reasoning;
// tool_calls with arguments as normalise_arguments takes them, or the older function_call. Errors:
// kInvalidArgument, kTooLarge, naming the place.
Result<NormalisedConversation> normalise_conversation(const Json& messages, const Json* tools,
                                                      const ChatOptions& options);

// A call's arguments as an object. An object stays; null, "" and a string of white space or "null"
// are no arguments; a string holding a JSON object is that object; any other string is kept, as the
// one argument "arguments". Others: kInvalidArgument.
Result<Json> normalise_arguments(const Json& arguments);

}  // namespace lily
