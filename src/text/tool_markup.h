// The call markup's tokens of grammar, matched at the start of text that may still grow.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lily {

inline constexpr std::string_view kCallOpen = "<tool_call>";
inline constexpr std::string_view kCallClose = "</tool_call>";
inline constexpr std::string_view kFunctionOpen = "<function=";
inline constexpr std::string_view kFunctionClose = "</function>";
inline constexpr std::string_view kParameterOpen = "<parameter=";
inline constexpr std::string_view kParameterClose = "</parameter>";

// White space between tags, and a name inside one, are no longer than this; longer ones are no
// markup.
inline constexpr std::size_t kMaxGapBytes = 64;
inline constexpr std::size_t kMaxNameBytes = 256;

// kPartial: the text ends before it is decided.
enum class Match { kNo, kPartial, kYes };

// Reads one token after another from the start of a text; `at` is where the next one begins.
struct MarkupReader {
  std::string_view text;
  std::size_t at = 0;

  Match literal(std::string_view wanted);
  Match name(std::string& out);  // Up to and with ">": not empty, without "<" and line ends.
  void gap();                    // White space, if any.
};

// <function=NAME>, with <tool_call> before it or not.
struct CallOpening {
  Match match = Match::kNo;
  bool wrapped = false;
  std::string name;
  std::size_t size = 0;  // Bytes up to and with ">".
};
CallOpening match_call_opening(std::string_view text);

}  // namespace lily
