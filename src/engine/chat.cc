// Rendering and encoding in one go, with what the engine needs to know about the prompt's end.
#include "engine/chat.h"

namespace lily {

Result<ChatPrompt> encode_chat(const Tokenizer& tokenizer, const Conversation& conversation) {
  LILY_TRY(const RenderedPrompt rendered, render_chat(conversation));
  if (rendered.n_images + rendered.n_videos > 0) {
    return Error{ErrorCode::kUnsupported, "the conversation holds " + std::to_string(rendered.n_images) + " images and " +
                                              std::to_string(rendered.n_videos) + " videos; Lily runs the text model alone"};
  }
  if (rendered.opens_with_result) {
    return Error{ErrorCode::kInvalidArgument, "messages[0]: a tool result needs the call that it answers before it"};
  }
  ChatPrompt prompt{.tokens = tokenizer.encode_pieces(rendered.pieces()), .in_thinking = rendered.in_thinking, .borders = {}};
  if (const auto turn = tokenizer.id_of("<|im_start|>")) {
    for (std::size_t i = 0; i < prompt.tokens.size(); ++i) {
      if (prompt.tokens[i] == *turn) prompt.borders.push_back(static_cast<int>(i));
    }
    if (!prompt.borders.empty()) prompt.turn_start = prompt.borders.back();
  }
  return prompt;
}

}  // namespace lily
