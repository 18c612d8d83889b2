// Typing of argument values: exact where the schema allows, else the text itself.
#include "text/tool_schema.h"

#include <gtest/gtest.h>

namespace lily {
namespace {

// A tool f whose parameter x has the schema.
ToolSchemas with(const std::string& schema, const std::string& more = "") {
  const auto json = parse_json(
      R"({"type": "function", "function": {"name": "f", "parameters": {"properties": {"x": )" +
      schema + "}" + more + "}}}");
  EXPECT_TRUE(json.has_value()) << schema;
  return ToolSchemas({ToolSpec{*json}});
}

std::string typed(const std::string& schema, std::string_view text) {
  return with(schema).typed_value("f", "x", text);
}

TEST(ToolSchema, StringsStayRaw) {
  for (const char* schema : {R"({"type": "string"})", R"({"type": "str"})",
                             R"({"enum": ["5", "null"]})", R"({"const": "5"})"}) {
    EXPECT_EQ(typed(schema, "5"), "\"5\"") << schema;
    EXPECT_EQ(typed(schema, "null"), "\"null\"") << schema;
    EXPECT_TRUE(with(schema).is_text("f", "x"));
  }
  EXPECT_EQ(typed(R"({"type": "string"})", "a\n\"\\é"), R"("a\n\"\\é")");
}

// R057
TEST(ToolSchema, IntegersAreExactOrText) {
  const std::string integer = R"({"type": "integer"})";
  const std::pair<const char*, const char*> cases[] = {
      {"5", "5"},
      {"3.0", "3"},
      {"1e3", "1000"},
      {"abc", "\"abc\""},
      {"", "\"\""},
      {"-0", "0"},
      {"1.5", "\"1.5\""},
      {"12345678901234567890", "12345678901234567890"},
      {"-2.50e1", "-25"},
      {"1e-1", "\"1e-1\""},
      {"10e-1", "1"},
      {"0.0", "0"},
      {"01", "\"01\""},
      {"+5", "\"+5\""},
      {"NaN", "\"NaN\""},
      {"null", "\"null\""},
      {"true", "\"true\""},
      {"1e23", "100000000000000000000000"},
      {"1e999", "\"1e999\""},
      {"5 apples", "\"5 apples\""},
  };
  for (const auto& [text, value] : cases) EXPECT_EQ(typed(integer, text), value) << text;
}

TEST(ToolSchema, OtherScalarsAreExactOrText) {
  EXPECT_EQ(typed(R"({"type": "number"})", "1.5"), "1.5");
  EXPECT_EQ(typed(R"({"type": "number"})", "7"), "7");
  EXPECT_EQ(typed(R"({"type": "number"})", "-0"), "0");
  EXPECT_EQ(typed(R"({"type": "number"})", "NaN"), "\"NaN\"");
  EXPECT_EQ(typed(R"({"type": "boolean"})", "true"), "true");
  EXPECT_EQ(typed(R"({"type": "boolean"})", "True"), "\"True\"");
  EXPECT_EQ(typed(R"({"type": "boolean"})", "1"), "\"1\"");
  EXPECT_EQ(typed(R"({"type": "null"})", "null"), "null");
}

// R059
TEST(ToolSchema, NestedValuesFollowTheirInnerTypes) {
  const std::string ids = R"({"type": "array", "items": {"type": "string"}})";
  const std::string box =
      R"({"type": "object", "properties": {"w": {"type": "string"}, "n": {"type": "integer"}}})";
  EXPECT_EQ(typed(ids, R"(["01", "2"])"), R"(["01", "2"])");
  EXPECT_EQ(typed(ids, "[01]"), "\"[01]\"");
  EXPECT_EQ(typed(ids, "[1]"), "[1]");
  EXPECT_EQ(typed(box, R"({"w":"7"})"), R"({"w": "7"})");
  EXPECT_EQ(typed(box, R"({"w": 7})"), R"({"w": 7})");
  EXPECT_EQ(typed(box, R"({"w": "x", "n": 3.0, "other": 3.0})"),
            R"({"w": "x", "n": 3, "other": 3.0})");
  EXPECT_EQ(typed(box, "[1]"), "\"[1]\"");
  EXPECT_EQ(typed(R"({"type": "array", "items": {"type": "integer"}})", "[1.0, 2]"), "[1, 2]");
}

TEST(ToolSchema, AlternativesAreTriedBeforeText) {
  const std::string note = R"({"anyOf": [{"type": "string"}, {"type": "null"}]})";
  EXPECT_EQ(typed(note, "null"), "null");
  EXPECT_EQ(typed(note, "5"), "\"5\"");
  EXPECT_EQ(typed(R"({"type": ["string", "integer"]})", "5"), "5");
  EXPECT_EQ(typed(R"({"type": "string", "nullable": true})", "null"), "null");
  const std::string either =
      R"({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]})";
  EXPECT_EQ(typed(either, "[1]"), "[1]");
  EXPECT_EQ(typed(either, R"(["a"])"), R"("[\"a\"]")");
  EXPECT_EQ(typed(R"({"allOf": [{"type": "integer"}, {"minimum": 0}]})", "3.0"), "3");
}

TEST(ToolSchema, EnumsGiveTheTypeOfTheirMembers) {
  EXPECT_EQ(typed(R"({"enum": [1, 2]})", "1"), "1");
  EXPECT_EQ(typed(R"({"enum": ["1", 2]})", "1"), "\"1\"");
  EXPECT_EQ(typed(R"({"enum": ["1", 2]})", "2"), "2");
  EXPECT_EQ(typed(R"({"enum": ["a", null]})", "null"), "null");
  EXPECT_EQ(typed(R"({"type": "integer", "enum": [1, 2]})", "3"), "3");
  EXPECT_EQ(typed(R"({"const": true})", "true"), "true");
}

TEST(ToolSchema, WithoutATypeJsonIsReadAndTextStaysText) {
  for (const char* schema : {"{}", "true", R"({"description": "d"})", R"({"type": "any"})",
                             R"({"$ref": "other.json"})"}) {
    EXPECT_EQ(typed(schema, "5"), "5") << schema;
    EXPECT_EQ(typed(schema, "[1]"), "[1]") << schema;
    EXPECT_EQ(typed(schema, "null"), "null") << schema;
    EXPECT_EQ(typed(schema, "five"), "\"five\"") << schema;
    EXPECT_EQ(typed(schema, "\"5\""), R"("\"5\"")") << schema;
    EXPECT_FALSE(with(schema).is_text("f", "x"));
  }
  EXPECT_EQ(with("{}").typed_value("f", "unknown", "5"), "5");
  EXPECT_EQ(with("{}").typed_value("unknown", "x", "5"), "5");
  EXPECT_EQ(
      with("{}", R"(, "additionalProperties": {"type": "string"})").typed_value("f", "other", "5"),
      "\"5\"");
}

TEST(ToolSchema, LocalReferencesAreFollowed) {
  const std::string definitions =
      R"(, "$defs": {"a/b": {"type": "string"}, "loop": {"$ref": "#/$defs/loop"},
      "tree": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/tree"}]}}})";
  EXPECT_EQ(with(R"({"$ref": "#/$defs/a~1b"})", definitions).typed_value("f", "x", "5"), "\"5\"");
  EXPECT_EQ(with(R"({"$ref": "#/$defs/loop"})", definitions).typed_value("f", "x", "5"), "5");
  EXPECT_EQ(with(R"({"$ref": "#/$defs/tree"})", definitions).typed_value("f", "x", "[1.0, [2.0]]"),
            "[1, [2]]");
}

TEST(ToolSchema, EndlessSchemasEnd) {
  std::string options = R"({"$ref": "#/$defs/a"})";
  for (int i = 0; i < 20; ++i) options += R"(, {"$ref": "#/$defs/a"})";
  const std::string definitions = R"(, "$defs": {"a": {"anyOf": [)" + options + "]}}";
  EXPECT_EQ(with(R"({"$ref": "#/$defs/a"})", definitions).typed_value("f", "x", "[[[[1]]]]"),
            "[[[[1]]]]");
}

TEST(ToolSchema, FindsToolsInEveryShape) {
  const auto bare =
      parse_json(R"({"name": "g", "input_schema": {"properties": {"x": {"type": "string"}}}})");
  const auto nameless = parse_json(R"({"function": {"name": 3}})");
  const ToolSchemas tools({ToolSpec{*bare}, ToolSpec{*nameless}});
  EXPECT_TRUE(tools.contains("g"));
  EXPECT_FALSE(tools.contains("f"));
  EXPECT_TRUE(tools.is_text("g", "x"));
  EXPECT_TRUE(ToolSchemas({ToolSpec{*nameless}}).empty());
}

}  // namespace
}  // namespace lily
