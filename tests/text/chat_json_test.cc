// The chat format's JSON: Python's spelling of numbers and strings, key order, bounds.
#include "text/chat_json.h"

#include <gtest/gtest.h>

namespace lily {
namespace {

std::string rewritten(std::string_view text) {
  const auto value = parse_json(text);
  return value ? dump_json(*value) : "error: " + value.error().message;
}

TEST(ChatJson, NumbersAreSpeltAsPythonSpellsThem) {
  EXPECT_EQ(rewritten("[1e-7, 1.0, 1e16, 1e15, 0.0001, 0.00001, 123456789.125, 1e22, 5e-324]"),
            "[1e-07, 1.0, 1e+16, 1000000000000000.0, 0.0001, 1e-05, 123456789.125, 1e+22, 5e-324]");
  EXPECT_EQ(rewritten("[-0, -0.0, 0.0, 1E2, 1.5e300, 0.1, -2.50, 1.7976931348623157e308, 1e-999]"),
            "[0, -0.0, 0.0, 100.0, 1.5e+300, 0.1, -2.5, 1.7976931348623157e+308, 0.0]");
}

TEST(ChatJson, IntegersKeepTheirDigits) {
  EXPECT_EQ(rewritten("[18446744073709551615, 18446744073709551616, -9223372036854775809]"),
            "[18446744073709551615, 18446744073709551616, -9223372036854775809]");
  const std::string long_integer(300, '7');
  EXPECT_EQ(rewritten(long_integer), long_integer);
}

TEST(ChatJson, NonFiniteNumbersAreRefused) {
  for (const char* text : {"NaN", "Infinity", "-Infinity", "1e999"}) {
    const auto value = parse_json(text);
    ASSERT_FALSE(value.has_value()) << text;
    EXPECT_EQ(value.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(rewritten("1e999").substr(0, 32), "error: JSON number out of range ");
}

TEST(ChatJson, RepeatedKeyKeepsItsPlaceAndTakesTheLastValue) {
  EXPECT_EQ(rewritten(R"({"a": 1, "b": 2, "a": {"x": 3}, "c": 4, "b": []})"),
            R"({"a": {"x": 3}, "b": [], "c": 4})");
}

TEST(ChatJson, StringsEscapeOnlyWhatPythonEscapes) {
  EXPECT_EQ(rewritten(R"("q\"\\\/\n\t\r\b\f\u0001\u007f\u2028é😀\u00e9\ud83d\ude00")"),
            "\"q\\\"\\\\/\\n\\t\\r\\b\\f\\u0001\x7f\u2028é😀é😀\"");
}

TEST(ChatJson, BrokenTextIsRefused) {
  for (const char* text :
       {"", " ", "{", "[1,]", "{\"a\" 1}", "\"\xff\"", "\"\\ud800\"", "01", "1 2", "tru", "'a'"}) {
    EXPECT_FALSE(parse_json(text).has_value()) << text;
  }
}

TEST(ChatJson, DepthSizeAndCountAreBounded) {
  const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_TRUE(parse_json(nested(kMaxJsonDepth)).has_value());
  EXPECT_EQ(parse_json(nested(kMaxJsonDepth + 1)).error().code, ErrorCode::kTooLarge);
  std::string many = "[0";
  for (std::size_t i = 0; i < kMaxJsonValues; ++i) many += ",0";
  EXPECT_EQ(parse_json(many + "]").error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(parse_json(std::string(kMaxJsonBytes + 1, ' ')).error().code, ErrorCode::kTooLarge);
}

TEST(ChatJson, FindAndSetWorkByKey) {
  Json object = Json::object();
  object.set("a", Json::string("x"));
  object.set("b", Json::array());
  object.set("a", Json::object());
  EXPECT_EQ(dump_json(object), R"({"a": {}, "b": []})");
  EXPECT_EQ(object.find("c"), nullptr);
  EXPECT_EQ(Json::string("a").find("a"), nullptr);
}

TEST(ChatJson, QuotedTextIsCutAtACharacter) {
  EXPECT_EQ(in_quotes("a\nb"), R"("a\nb")");
  EXPECT_EQ(in_quotes(std::string(63, 'x') + "éé"), "\"" + std::string(63, 'x') + "...\"");
}

}  // namespace
}  // namespace lily
