// From a conversation to prompt tokens: the template's own markup becomes control tokens, people's text never does.
#pragma once

#include <vector>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace lily {

struct ChatPrompt {
  std::vector<TokenId> tokens;
  bool in_thinking = false;  // The answer starts inside a think block.
  std::vector<int> borders = {};  // Where messages begin, ascending; the last is the answer's own.
  int turn_start = 0;        // Where the answer's own turn begins: what later turns share with this prompt ends there.
};

// kUnsupported: images or video in the conversation.
Result<ChatPrompt> encode_chat(const Tokenizer& tokenizer, const Conversation& conversation);

}  // namespace lily
