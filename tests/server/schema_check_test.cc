// Which schemas become grammars, in which spelling, and what the others are told.
#include "server/schema_check.h"

#include <gtest/gtest.h>

#include "server/schema_pattern.h"

namespace lily::server {
namespace {

std::string checked(const std::string& text) {
  const auto schema = parse_json(text);
  EXPECT_TRUE(schema) << text;
  const auto out = check_schema(*schema, "s");
  return out ? dump_json(*out) : out.error().message;
}

std::string pattern(std::string_view text) {
  const auto out = read_schema_pattern(text, "p");
  return out ? out->text : out.error().message;
}

int places(std::string_view text) {
  const auto out = read_schema_pattern(text, "p");
  return out ? out->n_places : -1;
}

TEST(SchemaPattern, IsWrittenInFewWords) {
  EXPECT_EQ(pattern("^a$"), "\\u{61}");
  EXPECT_EQ(pattern("(?<year>\\d)|"), "(?:[\\u{30}-\\u{39}])|");
  EXPECT_EQ(pattern("[^\\x00-\\u{d7ff}\\n]"), "(?:[\\u{e000}-\\u{ffff}]|[\\u{10000}-\\u{10ffff}])");
  EXPECT_EQ(pattern("[z-\\u1680]"), "(?:[\\u{7a}-\\u{7f}]|[\\u{80}-\\u{7ff}]|[\\u{800}-\\u{1680}])");
  EXPECT_EQ(pattern("\u00e9\\$\\u0041"), "\\u{e9}\\u{24}\\u{41}");
  EXPECT_EQ(pattern("a{2,3}?b*?c+d?"), "\\u{61}{2,3}\\u{62}*\\u{63}+\\u{64}?");
  EXPECT_EQ(pattern(pattern("(a|b[c-e]{2})*")), pattern("(a|b[c-e]{2})*"));
}

// A pattern speaks of the text, a grammar of its spelling in JSON.
TEST(SchemaPattern, SpellsCharactersAsJsonDoes) {
  EXPECT_EQ(pattern("\""), "(?:\\u{5c}[\\u{22}])");
  EXPECT_EQ(pattern("\\\\+"), "(?:\\u{5c}[\\u{5c}])+");
  EXPECT_EQ(pattern("[\\n!-#]"), "(?:[\\u{21}\\u{23}]|\\u{5c}[\\u{22}\\u{6e}])");
  EXPECT_EQ(pattern("\\x1f"), "(?:\\u{5c}\\u{75}\\u{30}\\u{30}\\u{31}\\u{66})");
  EXPECT_EQ(pattern("\\x1f?"), pattern("\\x1f") + "?");
  EXPECT_EQ(pattern("[^\\s\\x00-\\x07\\x0e-\\x1f]"), pattern("[^\\s]")) << "a large class goes without nameless controls";
  EXPECT_EQ(places("\\x1f"), 7);
}

TEST(SchemaPattern, HasABound) {
  EXPECT_EQ(places("abc"), 3);
  EXPECT_EQ(places("(a{3}b){5,10}"), 40);
  EXPECT_EQ(places("[a-z]{2}.{2}"), 10);  // A large class counts as four.
  EXPECT_EQ(pattern("a{300}"), "p: at byte 4 of the pattern: a count over 256");
  EXPECT_EQ(pattern("(a{16}){17}"), "p: over 256 characters with repetitions written out");
  EXPECT_EQ(pattern(std::string(2000, 'a')), "p: a pattern of 2000 bytes, expected at most 1024");
  EXPECT_NE(pattern(std::string(500, '(') + "a" + std::string(500, ')')).find("deep"),
            std::string::npos);
}

TEST(SchemaPattern, RefusesWhatAGrammarCannotExpress) {
  for (const char* text :
       {"(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "\\b", "\\1", "\\p{L}", "(?i)a", "a^b", "a$b"}) {
    const auto out = read_schema_pattern(text, "p");
    ASSERT_FALSE(out) << text;
    EXPECT_EQ(out.error().code, ErrorCode::kUnsupported) << text;
  }
}

TEST(SchemaPattern, RefusesWhatMeansNothing) {
  for (const char* text : {"*", "a**", "a{2", "a{3,2}", "[a", "(a", "a)", "[b-a]", "[\\d-", "\\",
                           "\\x4", "\\ud800", "\\u{110000}", "[^\\s\\S]", "]"}) {
    const auto out = read_schema_pattern(text, "p");
    ASSERT_FALSE(out) << text;
    EXPECT_EQ(out.error().code, ErrorCode::kInvalidArgument) << text;
  }
}

TEST(CheckSchema, MakesExplicitWhatIsMeant) {
  EXPECT_EQ(checked(R"({"properties": {"a": {"oneOf": [true]}}})"),
            R"({"properties": {"a": {"anyOf": [true]}}, "additionalProperties": false})");
  EXPECT_EQ(checked(R"({"type": "string", "pattern": "^a$"})"),
            R"({"type": "string", "pattern": "\\u{61}"})");
}

TEST(CheckSchema, HearsEveryWordOrSaysWhyNot) {
  EXPECT_EQ(checked(R"({"anyOf": [{}], "properties": {}})"),
            "s.properties: not together with anyOf; a grammar takes one of them");
  EXPECT_EQ(checked(R"({"const": 1, "enum": [1]})"),
            "s.enum: not together with const; a grammar takes one of them");
  EXPECT_EQ(checked(R"({"minimum": 1})"),
            "s.minimum: of which type? expected a \"type\" beside it");
  EXPECT_EQ(checked(R"({"type": "integer", "multipleOf": 0.5})"),
            "s.multipleOf: expected a whole number, 1 .. 1024");
  const char* apart =
      "s.multipleOf: a grammar expresses this without a range, or with minimum and maximum at most "
      "10000 apart";
  EXPECT_EQ(checked(R"({"type": "integer", "multipleOf": 2, "minimum": 1})"), apart);
  EXPECT_EQ(checked(R"({"type": "integer", "multipleOf": 2, "minimum": 1, "maximum": 90000})"),
            apart);
  EXPECT_NE(checked(R"({"type": "integer", "multipleOf": 2, "minimum": 1, "maximum": 9})"), apart);
}

// Shapes whose cost to a grammar's maker grows fastest (docs/decisions/0005-grammar-bounds.md).
TEST(CheckSchema, RefusesWhatWouldTakeTooLong) {
  const auto object = [](int n, const std::string& more) {
    std::string out = R"({"type": "object"(MORE), "properties": {)";
    out.replace(out.find("(MORE)"), 6, more);
    for (int i = 0; i < n; ++i)
      out += (i > 0 ? ", \"p" : "\"p") + std::to_string(i) + R"(": {"type": "integer"})";
    return out + "}}";
  };
  const auto too_large = [](const std::string& text) {
    return text.find("too large for a grammar") != std::string::npos;
  };
  EXPECT_TRUE(too_large(checked(object(1500, ""))));
  EXPECT_TRUE(too_large(checked(object(80, R"(, "minProperties": 40)"))));
  EXPECT_TRUE(too_large(checked(object(60, R"(, "additionalProperties": true)"))));
  EXPECT_FALSE(too_large(checked(object(100, ""))));
  EXPECT_FALSE(too_large(checked(object(20, R"(, "additionalProperties": true)"))));
  std::string remainders = "{\"anyOf\": [";
  for (int i = 0; i < 16; ++i)
    remainders += std::string(i > 0 ? ", " : "") + R"({"type": "integer", "multipleOf": )" +
                  std::to_string(1000 + i) + "}";
  EXPECT_TRUE(too_large(checked(remainders + "]}")));
}

}  // namespace
}  // namespace lily::server
