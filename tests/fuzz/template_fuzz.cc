// Any bytes as a conversation: read strictly and normalised, then rendered. The pieces of a render
// join to its text.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/chat_normalise.h"
#include "text/chat_parse.h"
#include "text/chat_template.h"

namespace {

void render(const lily::Conversation& conversation) {
  const auto prompt = lily::render_chat(conversation);
  if (!prompt) return;
  std::string joined;
  for (const auto& piece : prompt->pieces()) joined += piece.text;
  if (joined != prompt->text()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto conversation = lily::parse_conversation(text)) render(*conversation);
  const auto json = lily::parse_json(text);
  if (!json) return 0;
  if (lily::dump_json(*lily::parse_json(lily::dump_json(*json))) != lily::dump_json(*json))
    std::abort();
  const lily::Json* messages = json->find("messages");
  if (messages == nullptr) return 0;
  if (const auto normal = lily::normalise_conversation(*messages, json->find("tools"), {}))
    render(normal->conversation);
  return 0;
}
