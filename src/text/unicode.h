// UTF-8, character classes and NFC, exactly as the reference tokenizer has them (classes of Unicode
// 16, NFC of Unicode 9).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lily {

enum class CharClass : std::uint8_t { kOther, kLetter, kMark, kNumber, kSpace, kNewline };

// Everything asked about a code point, in one byte.
struct CharFacts {
  std::uint8_t bits = 0;

  CharClass char_class() const { return static_cast<CharClass>(bits & 7); }
  bool nfc_unsafe() const {
    return (bits & 8) != 0;
  }  // NFC may change or move it, or join it to what stands before.
  bool nfc_younger() const {
    return (bits & 16) != 0;
  }  // NFC leaves it alone, although a younger Unicode does not.
};

// Two-stage table over all code points, built once (about 60 KiB).
class CharTable {
 public:
  static const CharTable& get();
  CharFacts operator[](std::uint32_t code_point) const {  // Below 0x110000.
    return pages_[page_of_[code_point >> 8]][code_point & 255];
  }

 private:
  using Page = std::array<CharFacts, 256>;
  CharTable();
  std::array<std::uint16_t, 0x1100> page_of_{};
  std::vector<Page> pages_;
};

// One code point of valid UTF-8; `size` is 0 where the bytes are not the start of a valid sequence.
struct Utf8Char {
  std::uint32_t code_point = 0;
  std::uint32_t size = 0;
};

// The character at the start of `text` (not empty), checked.
Utf8Char decode_utf8(std::string_view text);

// The same for text known to be valid.
inline Utf8Char decode_valid_utf8(const char* at) {
  const auto byte = [at](int i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(at[i]));
  };
  const auto low = [byte](int i) { return byte(i) & 0x3F; };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | low(1), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | low(1) << 6 | low(2), 3};
  return {(lead & 0x07) << 18 | low(1) << 12 | low(2) << 6 | low(3), 4};
}

void append_utf8(std::uint32_t code_point, std::string& out);

// Turns bytes that arrive in any portions into valid UTF-8: complete characters at once, U+FFFD for
// each maximal broken sequence (the Unicode standard's rule, and Rust's from_utf8_lossy).
class Utf8Repair {
 public:
  void push(std::string_view bytes, std::string& out);
  void finish(std::string& out);  // An unfinished sequence becomes one U+FFFD; ready for new text.

 private:
  void start(unsigned char byte, std::string& out);
  std::array<char, 4> held_{};
  int n_held_ = 0, n_needed_ = 0;              // Bytes of the sequence so far, and in all.
  unsigned char next_min_ = 0, next_max_ = 0;  // What the next byte of the sequence may be.
};

// The text with every broken sequence replaced by U+FFFD.
std::string repair_utf8(std::string_view bytes);

enum class TextState { kNormal, kNotNormal, kNotUtf8 };

// kNormal: valid and surely in NFC. kNotNormal: valid, NFC may change it.
TextState text_state(std::string_view text);

// Appends the NFC of valid text. Linear but for sorting runs of combining marks (n log n).
void append_nfc(std::string_view text, std::string& out);

}  // namespace lily
