// The family's scanner against PCRE2 on the same pattern, and what only RegexSplitter does.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/text/random_text.h"
#include "text/split.h"

namespace lily {
namespace {

using Pieces = std::vector<std::string>;

Pieces scanned(std::string_view text) {
  Pieces pieces;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = family_piece_end(text, at);
    pieces.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

Pieces split_by(const RegexSplitter& splitter, std::string_view text) {
  std::vector<std::uint32_t> ends;
  splitter.split(text, ends);
  Pieces pieces;
  std::size_t at = 0;
  for (const std::uint32_t end : ends) {
    pieces.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

const RegexSplitter& family_regex() {
  static const RegexSplitter splitter = RegexSplitter::compile(kFamilyPattern).value();
  return splitter;
}

TEST(Split, CutsAsThePatternSays) {
  EXPECT_EQ(scanned("I'm 12, we'RE x'y"),
            (Pieces{"I", "'m", " ", "1", "2", ",", " we", "'RE", " x", "'y"}));
  EXPECT_EQ(scanned("a  b\n\n c \t"), (Pieces{"a", " ", " b", "\n\n", " c", " \t"}));
  EXPECT_EQ(scanned("x ==\r\n y"), (Pieces{"x", " ==\r\n", " y"}));
  EXPECT_EQ(scanned("it'ſ e\u0301!\u0301"), (Pieces{"it", "'ſ", " e\u0301", "!\u0301"}));
  EXPECT_EQ(scanned(""), Pieces{});
}

RC_GTEST_PROP(Split, ScannerAgreesWithTheRegularExpression, ()) {
  const std::string text = *random_text();
  RC_ASSERT(scanned(text) == split_by(family_regex(), text));
}

TEST(Split, ScannerAgreesOnEveryOldCodePointInContext) {
  for (std::uint32_t c = 0; c < 0x860; ++c) {
    std::string one;
    append_utf8(c, one);
    for (const std::string& text : {one + "a", "a" + one + one + "b", " " + one + "\n",
                                    "1" + one + "  x", "'" + one + "=" + one}) {
      ASSERT_EQ(scanned(text), split_by(family_regex(), text)) << "U+" << std::hex << c;
    }
  }
}

TEST(Split, RegexTakesUnicodeWhiteSpaceForItsSpaceClass) {
  const auto splitter = RegexSplitter::compile(R"(\s+|[^\s]+)");
  ASSERT_TRUE(splitter.has_value());
  EXPECT_EQ(split_by(*splitter, "a\u180Eb\u0085\u3000c"),
            (Pieces{"a\u180Eb", "\u0085\u3000", "c"}));
}

TEST(Split, RegexKeepsWhatLiesBetweenMatchesAsPieces) {
  const auto splitter = RegexSplitter::compile(R"(\d+|x*)");
  ASSERT_TRUE(splitter.has_value());
  EXPECT_EQ(split_by(*splitter, "ab12cxd"), (Pieces{"ab", "12", "c", "x", "d"}));
}

TEST(Split, RegexSurvivesAMegabyteOfOneKind) {
  for (const char* unit : {" ", "a", "=", "\n", "\t \r", "e\u0301", "🔥"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    EXPECT_EQ(split_by(family_regex(), text), scanned(text)) << unit;
  }
}

TEST(Split, RefusesPatternsThatDoNotCompileOrAreTooLong) {
  const auto broken = RegexSplitter::compile("(a");
  ASSERT_FALSE(broken.has_value());
  EXPECT_EQ(broken.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(broken.error().message.find("split pattern '(a'"), std::string::npos);
  EXPECT_FALSE(RegexSplitter::compile(std::string(5000, 'a')).has_value());
}

TEST(Split, APatternThatBacktracksForeverIsCutShort) {
  const auto splitter = RegexSplitter::compile("(a+)+$");
  ASSERT_TRUE(splitter.has_value());
  const std::string text = std::string(64, 'a') + "b";
  EXPECT_EQ(split_by(*splitter, text), Pieces{text});
}

}  // namespace
}  // namespace lily
