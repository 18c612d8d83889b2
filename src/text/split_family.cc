// The family's split pattern as a scanner; one function per alternative, tried in the pattern's
// order:
//   (?i:'s|'t|'re|'ve|'m|'ll|'d)   [^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+   \p{N}
//   ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*   \s*[\r\n]+   \s+(?!\S)   \s+
// A regular expression engine gives the same pieces (the tests compare them), several times slower.
#include "text/split.h"
#include "text/unicode.h"

namespace lily {
namespace {

struct Scanned {
  CharClass char_class;
  std::uint32_t size;
};

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::size_t piece_end(std::size_t at) const {
    if (text_[at] == '\'') {
      if (const std::size_t size = contraction(text_.substr(at + 1)); size > 0)
        return at + 1 + size;
    }
    const Scanned first = scan(at);
    const std::size_t next = at + first.size;
    if (is_word(first.char_class)) return word_end(next);
    if (first.char_class == CharClass::kNumber) return next;
    if (first.char_class != CharClass::kNewline && next < text_.size() &&
        is_word(scan(next).char_class)) {
      return word_end(next);
    }
    if (first.char_class == CharClass::kOther) return symbols_end(next);
    if (text_[at] == ' ' && next < text_.size() && scan(next).char_class == CharClass::kOther) {
      return symbols_end(next);
    }
    return space_end(at);
  }

 private:
  static bool is_word(CharClass c) { return c == CharClass::kLetter || c == CharClass::kMark; }

  // What follows the apostrophe of 's 't 're 've 'm 'll 'd, any case; U+017F is a long s. 0: none
  // of them.
  static std::size_t contraction(std::string_view rest) {
    const auto lower = [rest](std::size_t i) { return i < rest.size() ? rest[i] | 0x20 : 0; };
    const int first = lower(0);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 1;
    if ((first == 'r' || first == 'v') && lower(1) == 'e') return 2;
    if (first == 'l' && lower(1) == 'l') return 2;
    return rest.substr(0, 2) == "\xC5\xBF" ? 2 : 0;
  }

  Scanned scan(std::size_t at) const {
    const Utf8Char c = decode_valid_utf8(text_.data() + at);
    return {table_[c.code_point].char_class(), c.size};
  }

  std::size_t word_end(std::size_t at) const {
    while (at < text_.size()) {
      const Scanned c = scan(at);
      if (!is_word(c.char_class)) break;
      at += c.size;
    }
    return at;
  }

  std::size_t symbols_end(std::size_t at) const {
    while (at < text_.size()) {
      const Scanned c = scan(at);
      if (c.char_class != CharClass::kOther) break;
      at += c.size;
    }
    while (at < text_.size() && (text_[at] == '\r' || text_[at] == '\n')) ++at;
    return at;
  }

  // White space: up to its last newline if it has one; else all but the last character, which goes
  // to what follows; all of it at the end of the text, or when it is one character.
  std::size_t space_end(const std::size_t begin) const {
    std::size_t after_newline = 0, last = begin, at = begin;
    while (at < text_.size()) {
      const Scanned c = scan(at);
      if (c.char_class != CharClass::kSpace && c.char_class != CharClass::kNewline) break;
      last = at;
      at += c.size;
      if (c.char_class == CharClass::kNewline) after_newline = at;
    }
    if (after_newline > 0) return after_newline;
    return at == text_.size() || last == begin ? at : last;
  }

  std::string_view text_;
  const CharTable& table_ = CharTable::get();
};

}  // namespace

std::size_t family_piece_end(std::string_view text, std::size_t at) {
  return Scanner(text).piece_end(at);
}

}  // namespace lily
