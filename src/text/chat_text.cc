// White space as Python's str.strip sees it, recognised on UTF-8 bytes.
#include "text/chat_text.h"

#include <cstddef>
#include <cstdint>

#include "text/unicode.h"

namespace lily {
namespace {

bool is_python_space(std::uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_space_char(Utf8Char c) {
  return c.size > 0 && is_python_space(c.code_point);
}

// The last character of text (not empty); size 0 when its end is not valid UTF-8.
Utf8Char last_char(std::string_view text) {
  for (std::size_t size = 1; size <= 4 && size <= text.size(); ++size) {
    const Utf8Char c = decode_utf8(text.substr(text.size() - size));
    if (c.size == size) return c;
  }
  return {};
}

}  // namespace

std::string_view strip(std::string_view text) {
  while (!text.empty()) {
    const Utf8Char first = decode_utf8(text);
    if (!is_space_char(first)) break;
    text.remove_prefix(first.size);
  }
  while (!text.empty()) {
    const Utf8Char last = last_char(text);
    if (!is_space_char(last)) break;
    text.remove_suffix(last.size);
  }
  return text;
}

std::string_view strip_leading_newlines(std::string_view text) {
  while (text.starts_with('\n')) text.remove_prefix(1);
  return text;
}

}  // namespace lily
