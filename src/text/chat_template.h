// The family's chat template, written natively: the bytes that its Jinja template gives, and which
// of them are its own.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/chat_types.h"
#include "text/text_piece.h"

namespace lily {

// A prompt before tokenisation. What a user, a client or a tool supplied is untrusted: a control
// token spelt there stays text.
class RenderedPrompt {
 public:
  // Appends; neighbours of equal trust become one piece.
  void add(std::string_view text, bool trusted);

  const std::string& text() const { return text_; }
  // The same text in pieces; views that live as long as this object.
  std::vector<TextPiece> pieces() const;

  std::size_t n_images = 0;  // Placeholders written, over all messages.
  std::size_t n_videos = 0;
  bool opens_with_result = false;  // messages[0] is a tool result: the template gives its turn no opening.
  bool in_thinking = false;  // Ends inside an open think block: the answer begins with reasoning.

 private:
  struct Run {
    std::size_t end;
    bool trusted;
  };
  std::string text_;
  std::vector<Run> runs_;
};

// kInvalidArgument where the template raises: no user question, a system message after the first, a
// picture in a system message; also for a tool result as the first message, which the template
// renders without its turn's opening.
Result<RenderedPrompt> render_chat(const Conversation& conversation);

}  // namespace lily
