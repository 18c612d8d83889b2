// Cuts text into the pieces that byte-pair merging never crosses, by the pattern in tokenizer.json.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lily {

// The family's pattern, scanned by hand. Anything else goes through PCRE2.
inline constexpr std::string_view kFamilyPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Where the family's pattern ends its match at `at`. Valid UTF-8, at < text.size(); the pattern
// leaves no gaps.
std::size_t family_piece_end(std::string_view text, std::size_t at);

// A compiled pattern: matches are pieces, and so is what lies between them (behaviour "Isolated").
class RegexSplitter {
 public:
  // kCorrupt: PCRE2 refuses the pattern, or it is longer than 4,096 bytes.
  // \s is spelled out, because PCRE2's contains U+180E, which is no white space in Unicode.
  static Result<RegexSplitter> compile(std::string_view pattern);

  // Appends the end of each piece, ascending; the last is text.size(). Valid UTF-8, shorter than
  // 2^32 bytes. Past PCRE2's match limit (a pathological pattern) the rest of the text is one
  // piece.
  void split(std::string_view text, std::vector<std::uint32_t>& ends) const;

 private:
  explicit RegexSplitter(std::shared_ptr<const void> code) : code_(std::move(code)) {}
  std::shared_ptr<const void> code_;  // pcre2_code
};

}  // namespace lily
