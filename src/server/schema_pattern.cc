// A descent over alternatives, sequences, atoms and counts.
#include "server/schema_pattern.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "server/limits.h"
#include "text/chat_json.h"
#include "text/unicode.h"

namespace lily::server {
namespace {

constexpr int kMaxNesting = 16;
constexpr int kSmallClass = 64;  // Characters; a larger one costs a grammar more.
constexpr int kLargeClassPlaces = 4;
constexpr std::uint32_t kLastCharacter = 0x10FFFF, kFirstSurrogate = 0xD800,
                        kLastSurrogate = 0xDFFF;

struct Range {
  std::uint32_t low, high;
};
using Set = std::vector<Range>;

const Set kDigits{{'0', '9'}};
const Set kWord{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const Set kSpace{{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680},
                 {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                 {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const Set kLineEnds{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

Set complement(Set of) {
  std::sort(of.begin(), of.end(), [](const Range& a, const Range& b) { return a.low < b.low; });
  Set out;
  std::uint32_t next = 0;
  for (const Range& one : of) {
    if (one.low > next) out.push_back({next, one.low - 1});
    next = std::max(next, one.high + 1);
  }
  if (next <= kLastCharacter) out.push_back({next, kLastCharacter});
  return out;
}

// Halves of pairs are no characters of their own.
Set without_surrogates(const Set& of) {
  Set out;
  for (const Range& one : of) {
    if (one.low < kFirstSurrogate)
      out.push_back({one.low, std::min(one.high, kFirstSurrogate - 1)});
    if (one.high > kLastSurrogate) out.push_back({std::max(one.low, kLastSurrogate + 1), one.high});
  }
  return out;
}

std::string code(std::uint32_t character) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string digits;
  do {
    digits.insert(digits.begin(), kHex[character % 16]);
    character /= 16;
  } while (character > 0);
  return "\\u{" + digits + "}";
}

// What JSON writes in a string with a backslash, and the letter behind it. Other characters below a space are \u00 and two digits.
struct Escape {
  std::uint32_t character;
  char letter;
};
constexpr std::array<Escape, 7> kEscapes{{{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};
const Set kNotPlain{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
constexpr int kHexEscapeCharacters = 6;
// The last characters of one, two, three and four bytes in UTF-8.
constexpr std::array<std::uint32_t, 4> kLastOfBytes{0x7F, 0x7FF, 0xFFFF, kLastCharacter};

bool contains(const Set& set, std::uint32_t character) {
  return std::any_of(set.begin(), set.end(), [&](const Range& one) { return one.low <= character && character <= one.high; });
}
bool has_letter(std::uint32_t character) {
  return std::any_of(kEscapes.begin(), kEscapes.end(), [&](const Escape& one) { return one.character == character; });
}

// Those of the set that stand in a string of JSON as they are.
Set plain(const Set& set) {
  Set others = complement(set);
  others.insert(others.end(), kNotPlain.begin(), kNotPlain.end());
  return without_surrogates(complement(std::move(others)));
}

std::string hex_escape(std::uint32_t character) {
  std::string out;
  for (const char c : {'\\', 'u', '0', '0'}) out += code(static_cast<std::uint32_t>(c));
  for (const std::uint32_t digit : {character / 16, character % 16}) out += code(digit < 10 ? '0' + digit : 'a' + digit - 10);
  return out;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// A single character, or a set of them.
struct Unit {
  Set set;
  bool single = false;
};

class Reader {
 public:
  Reader(std::string_view text, const std::string& place) : text_(text), place_(place) {}

  Result<SchemaPattern> read() {
    LILY_TRY(SchemaPattern out, alternatives(0));
    if (at_ < text_.size()) return bad("')' without a '('");
    return out;
  }

 private:
  Error bad(const std::string& what) const {
    return {ErrorCode::kInvalidArgument,
            place_ + ": at byte " + std::to_string(at_) + " of the pattern: " + what};
  }
  Error unsupported(const std::string& what) const {
    return {ErrorCode::kUnsupported, place_ + ": a grammar cannot express " + what};
  }
  bool sees(std::string_view text) const { return text_.substr(at_).starts_with(text); }
  bool takes(std::string_view text) {
    if (!sees(text)) return false;
    at_ += text.size();
    return true;
  }

  Result<SchemaPattern> alternatives(int depth) {
    if (depth > kMaxNesting) return bad("groups over " + std::to_string(kMaxNesting) + " deep");
    LILY_TRY(SchemaPattern out, sequence(depth));
    while (takes("|")) {
      LILY_TRY(const SchemaPattern one, sequence(depth));
      out.text += "|" + one.text;
      LILY_RETURN_IF_ERROR(add_places(out, one.n_places));
    }
    return out;
  }

  Result<SchemaPattern> sequence(int depth) {
    SchemaPattern out;
    while (at_ < text_.size() && !sees("|") && !sees(")")) {
      if (anchor()) continue;
      if (sees("^") || sees("$")) return unsupported("'^' and '$' but at the ends of a pattern");
      LILY_TRY(SchemaPattern one, atom(depth));
      LILY_RETURN_IF_ERROR(count(one));
      out.text += one.text;
      LILY_RETURN_IF_ERROR(add_places(out, one.n_places));
    }
    return out;
  }

  // A pattern is for the whole text here, so that its ends say nothing new.
  bool anchor() {
    const bool first = at_ == 0 && sees("^"), last = at_ + 1 == text_.size() && sees("$");
    at_ += first || last;
    return first || last;
  }

  Result<void> add_places(SchemaPattern& out, int n) const {
    out.n_places += n;
    if (out.n_places <= kMaxPatternPlaces) return {};
    return Error{ErrorCode::kInvalidArgument, place_ + ": over " +
                                                  std::to_string(kMaxPatternPlaces) +
                                                  " characters with repetitions written out"};
  }

  Result<SchemaPattern> atom(int depth) {
    if (takes("(")) return group(depth);
    if (takes("[")) return char_class();
    if (takes(".")) return of_set(complement(kLineEnds));
    if (std::string_view("*+?{}]").find(text_[at_]) != std::string_view::npos) {
      return bad(std::string("'") + text_[at_] +
                 "' with nothing before it; as a character it is written \\" + text_[at_]);
    }
    LILY_TRY(const Unit unit, unit_at(false));
    const auto first = unit.set.front().low;
    return unit.single && !contains(kNotPlain, first) ? SchemaPattern{code(first), 1} : of_set(unit.set);
  }

  Result<SchemaPattern> group(int depth) {
    if (takes("?")) {
      const bool named = sees("<") && !sees("<=") && !sees("<!");
      if (named) {
        const auto end = text_.find('>', at_);
        if (end == std::string_view::npos) return bad("the name of a group has no end");
        at_ = end + 1;
      } else if (!takes(":")) {
        return unsupported("what stands before or behind (a group that begins with (?" +
                           std::string(text_.substr(at_, 1)) + ")");
      }
    }
    LILY_TRY(SchemaPattern inner, alternatives(depth + 1));
    if (!takes(")")) return bad("a '(' without its ')'");
    inner.text = "(?:" + inner.text + ")";
    return inner;
  }

  // As JSON spells its characters. A large class goes without those that only \u00 spells. Characters of one, two, three and four bytes are
  // classes of their own: of one across these borders xgrammar's automaton takes overlong UTF-8 too.
  Result<SchemaPattern> of_set(const Set& set) const {
    const Set kept = plain(set);
    std::vector<std::string> ways;
    std::uint32_t n = 0;
    for (std::size_t i = 0; i < kLastOfBytes.size(); ++i) {
      const std::uint32_t first = i == 0 ? 0 : kLastOfBytes[i - 1] + 1, last = kLastOfBytes[i];
      std::string ranges;
      for (const Range& one : kept) {
        const auto low = std::max(one.low, first), high = std::min(one.high, last);
        if (low > high) continue;
        ranges += low == high ? code(low) : code(low) + "-" + code(high);
        n += high - low + 1;
      }
      if (!ranges.empty()) ways.push_back("[" + ranges + "]");
    }
    SchemaPattern out{"", n > kSmallClass ? kLargeClassPlaces : 1};
    add_escapes(set, n > kSmallClass, ways, out);
    if (ways.empty()) return bad("a class that no character is in");
    const bool alone = ways.size() == 1 && ways.front().front() == '[';
    for (const std::string& way : ways) out.text += (out.text.empty() ? "" : "|") + way;
    if (!alone) out.text = "(?:" + out.text + ")";
    return out;
  }

  static void add_escapes(const Set& set, bool large, std::vector<std::string>& ways, SchemaPattern& out) {
    std::string letters;
    for (const Escape& one : kEscapes) {
      if (contains(set, one.character)) letters += code(static_cast<unsigned char>(one.letter));
    }
    if (!letters.empty()) ways.push_back(code('\\') + "[" + letters + "]");
    for (std::uint32_t c = 0; c < ' ' && !large; ++c) {
      if (!contains(set, c) || has_letter(c)) continue;
      ways.push_back(hex_escape(c));
      out.n_places += kHexEscapeCharacters;
    }
  }

  Result<SchemaPattern> char_class() {
    const bool negated = takes("^");
    Set set;
    while (at_ < text_.size() && !sees("]")) {
      LILY_TRY(Unit low, unit_at(true));
      const bool range = low.single && sees("-") && !sees("-]");
      if (range) {
        ++at_;
        if (at_ >= text_.size()) break;
        LILY_TRY(const Unit high, unit_at(true));
        if (!high.single || high.set.front().low < low.set.front().low)
          return bad("a range that has no beginning or no end");
        low.set.front().high = high.set.front().low;
      }
      set.insert(set.end(), low.set.begin(), low.set.end());
    }
    if (!takes("]")) return bad("a '[' without its ']'");
    return of_set(negated ? complement(std::move(set)) : set);
  }

  static Unit character(std::uint32_t value) { return {{{value, value}}, true}; }

  Result<Unit> unit_at(bool in_class) {
    if (takes("\\")) return escape(in_class);
    const auto [value, size] = decode_utf8(text_.substr(at_));
    at_ += size;
    return character(value);
  }

  Result<Unit> escape(bool in_class) {
    if (at_ >= text_.size()) return bad("a '\\' with nothing behind it");
    const char c = text_[at_++];
    switch (c) {
      case 'd':
        return Unit{kDigits};
      case 'D':
        return Unit{complement(kDigits)};
      case 'w':
        return Unit{kWord};
      case 'W':
        return Unit{complement(kWord)};
      case 's':
        return Unit{kSpace};
      case 'S':
        return Unit{complement(kSpace)};
      case 'n':
        return character('\n');
      case 't':
        return character('\t');
      case 'r':
        return character('\r');
      case 'f':
        return character('\f');
      case 'v':
        return character('\v');
      case 'x':
        return hex(2);
      case 'u':
        return takes("{") ? braced_hex() : hex(4);
      case 'b':
        if (in_class) return character('\b');
        return unsupported("word borders");
      default:
        break;
    }
    const bool letter_or_digit =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter_or_digit) return unsupported(std::string("\\") + c);
    --at_;
    const auto [value, size] = decode_utf8(text_.substr(at_));
    at_ += size;
    return character(value);
  }

  Result<Unit> hex(std::size_t n_digits) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < n_digits; ++i, ++at_) {
      const int digit = at_ < text_.size() ? hex_value(text_[at_]) : -1;
      if (digit < 0) return bad("expected " + std::to_string(n_digits) + " hexadecimal digits");
      value = value * 16 + static_cast<std::uint32_t>(digit);
    }
    return checked(value);
  }

  Result<Unit> braced_hex() {
    std::uint32_t value = 0;
    for (int n = 0; at_ < text_.size() && hex_value(text_[at_]) >= 0; ++n, ++at_) {
      if (n == 6) return bad("a character has six digits at most");
      value = value * 16 + static_cast<std::uint32_t>(hex_value(text_[at_]));
    }
    if (!takes("}")) return bad("expected '}' behind the digits of a character");
    return checked(value);
  }

  Result<Unit> checked(std::uint32_t value) const {
    if (value > kLastCharacter) return bad("beyond the last character");
    if (value >= kFirstSurrogate && value <= kLastSurrogate)
      return bad("half a pair; a character beyond \\uffff is written \\u{...}");
    return character(value);
  }

  // Repetitions: as they came, and how much they make of what they repeat.
  Result<void> count(SchemaPattern& one) {
    int times = 1;
    if (takes("*") || takes("+") || takes("?")) {
      one.text += text_[at_ - 1];
    } else if (takes("{")) {
      LILY_TRY(times, counts(one.text));
    } else {
      return {};
    }
    takes("?");  // As few as possible or as many: the same texts fit.
    if (sees("*") || sees("+") || sees("?") || sees("{"))
      return bad("two repetitions of one thing");
    SchemaPattern sum;
    // Products stay small: neither factor is over the bound.
    LILY_RETURN_IF_ERROR(add_places(sum, one.n_places * std::max(1, times)));
    one.n_places = sum.n_places;
    return {};
  }

  Result<int> counts(std::string& out) {
    LILY_TRY(const int low, number());
    int high = low;
    out += "{" + std::to_string(low);
    if (takes(",")) {
      out += ',';
      if (!sees("}")) {
        LILY_TRY(high, number());
        if (high < low) return bad("a repetition that ends before it begins");
        out += std::to_string(high);
      }
    }
    if (!takes("}")) return bad("expected '}' behind the count");
    out += '}';
    return high;
  }

  Result<int> number() {
    int value = 0;
    const std::size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = value * 10 + (text_[at_] - '0');
      if (value > kMaxPatternPlaces)
        return bad("a count over " + std::to_string(kMaxPatternPlaces));
    }
    if (at_ == begin) return bad("expected a count");
    return value;
  }

  std::string_view text_;
  const std::string& place_;
  std::size_t at_ = 0;
};

}  // namespace

Result<SchemaPattern> read_schema_pattern(std::string_view pattern, const std::string& place) {
  if (pattern.size() > kMaxPatternBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 place + ": a pattern of " + std::to_string(pattern.size()) +
                     " bytes, expected at most " + std::to_string(kMaxPatternBytes)};
  }
  return Reader(pattern, place).read();
}

}  // namespace lily::server
