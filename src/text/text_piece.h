// TextPiece: a stretch of a rendered prompt, and whether its control-token spellings count.
#pragma once

#include <string_view>

namespace lily {

struct TextPiece {
  std::string_view text;
  bool trusted;  // true: written by the template, "<|im_end|>" is the control token; false: a
                 // user's, it is plain text.
};

}  // namespace lily
