// Repairing UTF-8, character classes, and NFC with the reference's tables.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/text/random_text.h"
#include "text/unicode.h"

namespace lily {
namespace {

TEST(Unicode, EachMaximalBrokenSequenceBecomesOneReplacement) {
  EXPECT_EQ(repair_utf8("a\x80z"), "a\uFFFDz");
  EXPECT_EQ(repair_utf8("\xE6\xB0"), "\uFFFD") << "a beginning is one sequence";
  EXPECT_EQ(repair_utf8("\xE6\xB0z\xF0\x9F\x94"), "\uFFFDz\uFFFD");
  EXPECT_EQ(repair_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD") << "a surrogate";
  EXPECT_EQ(repair_utf8("\xC0\xAF\xF5\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD")
      << "overlong, and past the last plane";
  EXPECT_EQ(repair_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD") << "past U+10FFFF";
  EXPECT_EQ(repair_utf8("\xE6\xE6\xB0\xB4"), "\uFFFD水") << "broken by the start of another";
}

RC_GTEST_PROP(Unicode, RepairInAnyPortionsIsRepairOfTheWhole, ()) {
  const std::string bytes = *random_bytes();
  const auto cut = *rc::gen::inRange<std::size_t>(0, bytes.size() + 1);
  std::string out;
  Utf8Repair repair;
  repair.push(std::string_view(bytes).substr(0, cut), out);
  repair.push(std::string_view(bytes).substr(cut), out);
  repair.finish(out);
  RC_ASSERT(out == repair_utf8(bytes));
  RC_ASSERT(text_state(out) != TextState::kNotUtf8);
  RC_ASSERT((text_state(bytes) != TextState::kNotUtf8) == (out == bytes));
}

TEST(Unicode, EveryCodePointSurvivesEncodingAndDecoding) {
  for (std::uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(c, text);
    const Utf8Char back = decode_utf8(text);
    ASSERT_EQ(back.code_point, c);
    ASSERT_EQ(back.size, text.size());
    ASSERT_EQ(decode_valid_utf8(text.data()).code_point, c);
    ASSERT_EQ(decode_utf8(std::string_view(text).substr(0, text.size() - 1).empty()
                              ? "\x80"
                              : text.substr(0, text.size() - 1))
                  .size,
              0u);
  }
}

TEST(Unicode, ClassesAreThoseOfTheReference) {
  const CharTable& table = CharTable::get();
  EXPECT_EQ(table['a'].char_class(), CharClass::kLetter);
  EXPECT_EQ(table['_'].char_class(), CharClass::kOther);
  EXPECT_EQ(table['\n'].char_class(), CharClass::kNewline);
  EXPECT_EQ(table['\t'].char_class(), CharClass::kSpace);
  EXPECT_EQ(table[0x85].char_class(), CharClass::kSpace);
  EXPECT_EQ(table[0x301].char_class(), CharClass::kMark);
  EXPECT_EQ(table[0x2167].char_class(), CharClass::kNumber) << "Roman numeral eight";
  EXPECT_EQ(table[0x180E].char_class(), CharClass::kOther)
      << "the Mongolian vowel separator is no white space";
  EXPECT_EQ(table[0x10D4A].char_class(), CharClass::kLetter) << "Garay, new in Unicode 16";
  EXPECT_EQ(table[0x10FFFF].char_class(), CharClass::kOther);
}

TEST(Unicode, NfcComposesReordersAndLeavesYoungerCharactersAlone) {
  EXPECT_EQ(nfc("e\u0301"), "é");
  EXPECT_EQ(nfc("\u212B\u2126"), "\u00C5\u03A9") << "singletons";
  EXPECT_EQ(nfc("q\u0307\u0323"), "q\u0323\u0307") << "order of marks";
  EXPECT_EQ(nfc("a\u0308\u0323"), "\u1EA1\u0308");
  EXPECT_EQ(nfc("\u1112\u1161\u11AB"), "한");
  EXPECT_EQ(nfc("\uAC00\u11A8"), "각");
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093C") << "excluded from composition";
  EXPECT_EQ(nfc("\u0301a"), "\u0301a") << "a mark with nothing before it";
  EXPECT_EQ(nfc("\u0344"), "\u0308\u0301");
  EXPECT_EQ(nfc("\u1ACE\u0337"), "\u1ACE\u0337")
      << "U+1ACE is younger than the tables: it stays in front";
  EXPECT_EQ(nfc("\U000105D2\u0307"), "\U000105D2\u0307") << "a pair that only Unicode 16 composes";
}

RC_GTEST_PROP(Unicode, NfcIsIdempotentAndKeepsWhatIsNormal, ()) {
  const std::string text = *random_text();
  const std::string normal = nfc(text);
  RC_ASSERT(nfc(normal) == normal);
  RC_ASSERT(text_state(normal) != TextState::kNotUtf8);
  if (text_state(text) == TextState::kNormal) RC_ASSERT(normal == text);
}

TEST(Unicode, NfcOfAMegabyteOfMarksIsOrderedByClass) {
  std::string text, expected;
  for (int i = 0; i < 250'000; ++i) text += "\u0301\u0323";  // Classes 230 and 220.
  for (int i = 0; i < 250'000; ++i) expected += "\u0323";
  for (int i = 0; i < 250'000; ++i) expected += "\u0301";
  EXPECT_TRUE(nfc("x" + text) == "x" + expected);
}

}  // namespace
}  // namespace lily
