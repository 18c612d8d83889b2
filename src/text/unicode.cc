// UTF-8 decoding and repair, the class table, and NFC around utf8proc (the only file that uses it).
#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "text/unicode_tables.h"

namespace lily {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr int kMaxDecomposition = 18;  // Code points; canonical ones have at most 4.

struct LeadByte {
  int size;                // Bytes of the sequence, 0 when the byte cannot start one.
  unsigned char min, max;  // Range of the second byte.
};

LeadByte lead_byte(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2 || byte > 0xF4) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte < 0xF0) {
    return {3, static_cast<unsigned char>(byte == 0xE0 ? 0xA0 : 0x80),
            static_cast<unsigned char>(byte == 0xED ? 0x9F : 0xBF)};
  }
  return {4, static_cast<unsigned char>(byte == 0xF0 ? 0x90 : 0x80),
          static_cast<unsigned char>(byte == 0xF4 ? 0x8F : 0xBF)};
}

// Bytes at the start of the text that are ASCII, found eight at a time; may stop up to seven early.
std::size_t ascii_prefix(std::string_view text) {
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + at, sizeof(word));
    if ((word & 0x8080808080808080u) != 0) break;
  }
  return at;
}

std::uint8_t class_bits(CharClass char_class) {
  return static_cast<std::uint8_t>(char_class);
}

// NFC of short stretches, with its buffers kept from one to the next.
class NfcSegment {
 public:
  // `text`: one safe character (or none, at the start of a text) and the unsafe ones after it.
  void append(std::string_view text, std::string& out) {
    points_.clear();
    if (CharTable::get()[decode_valid_utf8(text.data()).code_point].nfc_younger()) {
      const std::size_t size = decode_valid_utf8(text.data()).size;
      out.append(text.substr(0, size));
      text.remove_prefix(size);
    }
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Char c = decode_valid_utf8(text.data() + at);
      decompose(c.code_point);
      at += c.size;
    }
    order();
    compose(out);
  }

 private:
  void decompose(std::uint32_t code_point) {
    utf8proc_int32_t parts[kMaxDecomposition];
    int boundary = 0;
    const utf8proc_ssize_t n = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(code_point), parts, kMaxDecomposition,
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), &boundary);
    if (n <= 0 || n > kMaxDecomposition) {  // Not a character that utf8proc takes apart: leave it.
      points_.push_back(static_cast<utf8proc_int32_t>(code_point));
      return;
    }
    points_.insert(points_.end(), parts, parts + n);
  }

  // Canonical order. utf8proc's own is quadratic in the length of a run of marks.
  void order() {
    const auto mark_class = [](utf8proc_int32_t c) {
      return utf8proc_get_property(c)->combining_class;
    };
    for (auto at = points_.begin(); at != points_.end();) {
      at = std::find_if(at, points_.end(), mark_class);
      const auto end = std::find_if_not(at, points_.end(), mark_class);
      std::stable_sort(at, end, [&](auto a, auto b) { return mark_class(a) < mark_class(b); });
      at = end;
    }
  }

  void compose(std::string& out) {
    if (points_.empty()) return;
    const auto n = utf8proc_normalize_utf32(
        points_.data(), static_cast<utf8proc_ssize_t>(points_.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    points_.resize(static_cast<std::size_t>(std::max<utf8proc_ssize_t>(n, 0)));
    for (const utf8proc_int32_t c : points_) append_utf8(static_cast<std::uint32_t>(c), out);
  }

  std::vector<utf8proc_int32_t> points_;
};

}  // namespace

CharTable::CharTable() {
  std::vector<CharFacts> facts(0x110000);
  const auto mark = [&facts](std::span<const CodePointRange> ranges, std::uint8_t bits) {
    for (const CodePointRange& range : ranges) {
      for (std::uint32_t c = range.first; c <= range.last; ++c) facts[c].bits |= bits;
    }
  };
  mark(kLetterRanges, class_bits(CharClass::kLetter));
  mark(kMarkRanges, class_bits(CharClass::kMark));
  mark(kNumberRanges, class_bits(CharClass::kNumber));
  mark(kSpaceRanges, class_bits(CharClass::kSpace));
  facts['\r'].bits = facts['\n'].bits = class_bits(CharClass::kNewline);
  mark(kNfcUnsafeRanges, 8);
  mark(kNfcYoungerRanges, 16);
  const auto same = [](CharFacts a, CharFacts b) { return a.bits == b.bits; };
  for (std::size_t i = 0; i < page_of_.size(); ++i) {
    const auto* begin = facts.data() + i * 256;
    auto found = std::find_if(pages_.begin(), pages_.end(), [&](const Page& page) {
      return std::equal(page.begin(), page.end(), begin, same);
    });
    if (found == pages_.end()) {
      pages_.emplace_back();
      std::copy_n(begin, 256, pages_.back().begin());
      found = pages_.end() - 1;
    }
    page_of_[i] = static_cast<std::uint16_t>(found - pages_.begin());
  }
}

const CharTable& CharTable::get() {
  static const CharTable table;
  return table;
}

Utf8Char decode_utf8(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const LeadByte lead = lead_byte(byte(0));
  if (lead.size == 0 || text.size() < static_cast<std::size_t>(lead.size)) return {};
  if (lead.size > 1 && (byte(1) < lead.min || byte(1) > lead.max)) return {};
  for (int i = 2; i < lead.size; ++i) {
    if ((byte(static_cast<std::size_t>(i)) & 0xC0) != 0x80) return {};
  }
  return decode_valid_utf8(text.data());
}

void append_utf8(std::uint32_t c, std::string& out) {
  const auto low = [c](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += {static_cast<char>(0xC0 | c >> 6), low(0)};
  } else if (c < 0x10000) {
    out += {static_cast<char>(0xE0 | c >> 12), low(6), low(0)};
  } else {
    out += {static_cast<char>(0xF0 | c >> 18), low(12), low(6), low(0)};
  }
}

void Utf8Repair::start(unsigned char byte, std::string& out) {
  const LeadByte lead = lead_byte(byte);
  if (lead.size == 1) {
    out += static_cast<char>(byte);
  } else if (lead.size == 0) {
    out += kReplacement;
  } else {
    held_[0] = static_cast<char>(byte);
    n_held_ = 1;
    n_needed_ = lead.size;
    next_min_ = lead.min;
    next_max_ = lead.max;
  }
}

void Utf8Repair::push(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (n_held_ == 0) {
      start(byte, out);
    } else if (byte < next_min_ || byte > next_max_) {
      finish(out);
      start(byte, out);
    } else {
      held_[static_cast<std::size_t>(n_held_++)] = c;
      next_min_ = 0x80;
      next_max_ = 0xBF;
      if (n_held_ < n_needed_) continue;
      out.append(held_.data(), static_cast<std::size_t>(n_held_));
      n_held_ = 0;
    }
  }
}

void Utf8Repair::finish(std::string& out) {
  if (n_held_ > 0) out += kReplacement;
  n_held_ = 0;
}

std::string repair_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  Utf8Repair repair;
  repair.push(bytes, out);
  repair.finish(out);
  return out;
}

TextState text_state(std::string_view text) {
  const CharTable& table = CharTable::get();
  TextState state = TextState::kNormal;
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<signed char>(text[at]) >= 0) {
      const std::size_t n_ascii = ascii_prefix(text.substr(at));
      at += n_ascii > 0 ? n_ascii : 1;
      continue;
    }
    const Utf8Char c = decode_utf8(text.substr(at));
    if (c.size == 0) return TextState::kNotUtf8;
    if (table[c.code_point].nfc_unsafe()) state = TextState::kNotNormal;
    at += c.size;
  }
  return state;
}

void append_nfc(std::string_view text, std::string& out) {
  const CharTable& table = CharTable::get();
  NfcSegment segment;
  std::size_t copied = 0;  // Bytes of the text already in `out`.
  std::size_t head = 0;    // Where the last safe character starts.
  for (std::size_t at = 0; at < text.size();) {
    Utf8Char c = decode_valid_utf8(text.data() + at);
    if (!table[c.code_point].nfc_unsafe()) {
      head = at;
      at += c.size;
      continue;
    }
    while (at < text.size() && table[c.code_point].nfc_unsafe()) {
      at += c.size;
      if (at < text.size()) c = decode_valid_utf8(text.data() + at);
    }
    out.append(text.substr(copied, head - copied));
    segment.append(text.substr(head, at - head), out);
    copied = head = at;
  }
  out.append(text.substr(copied));
}

}  // namespace lily
