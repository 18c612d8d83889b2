// Messages and items of other doors as messages of chat completions.
#include <gtest/gtest.h>

#include "server/fields.h"
#include "server/messages_request.h"
#include "server/responses_request.h"

namespace lily::server {
namespace {

Json json(const char* text) {
  return *parse_json(text);
}

std::string from_messages(const char* system, const char* messages, bool keep = false) {
  const Json said = json(system);
  const auto out = chat_messages(&said, json(messages), keep);
  return out ? dump_json(*out) : out.error().message;
}

TEST(MessagesConversion, KeepsTheOrderOfATurn) {
  EXPECT_EQ(
      from_messages("null", R"([{"role": "user", "content": [{"type": "text", "text": "a"},
      {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "r"}]}, {"type": "text", "text": "b"}]}])"),
      R"([{"role": "user", "content": [{"type": "text", "text": "a"}]}, {"role": "tool", "content": [{"type": "text", "text": "r"}]}, )"
      R"({"role": "user", "content": [{"type": "text", "text": "b"}]}])");
}

TEST(MessagesConversion, TakesThinkingWithAnySignature) {
  EXPECT_EQ(
      from_messages(
          "null",
          R"([{"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "x"},
      {"type": "redacted_thinking", "data": "y"}, {"type": "text", "text": "a"},
      {"type": "tool_use", "id": "i", "name": "f", "input": {"k": 1}}]}])"),
      R"([{"role": "assistant", "content": [{"type": "text", "text": "a"}], "reasoning_content": "t", )"
      R"("tool_calls": [{"name": "f", "arguments": {"k": 1}}]}])");
}

TEST(MessagesConversion, DropsTheLineThatChangesWithEachRequest) {
  const char* system =
      R"([{"type": "text", "text": "x-anthropic-billing-header: a=1; cch=2;"}, {"type": "text", "text": "Be kind."}])";
  EXPECT_EQ(
      from_messages(system, "[]"),
      R"([{"role": "system", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "Be kind."}]}])");
  EXPECT_NE(from_messages(system, "[]", true).find("cch=2"), std::string::npos);
  EXPECT_EQ(from_messages(R"("x-anthropic-billing-header: a\nBe kind.")", "[]"),
            R"([{"role": "system", "content": [{"type": "text", "text": "Be kind."}]}])");
}

TEST(MessagesConversion, RefusesByPlace) {
  EXPECT_TRUE(from_messages("null", R"([{"role": "user", "content": [{"type": "wonder"}]}])")
                  .starts_with("messages[0].content[0].type: "));
  EXPECT_TRUE(from_messages("5", "[]").starts_with("system: "));
  EXPECT_TRUE(from_messages("null", R"([{"role": "user", "content": [{"type": "text"}]}])")
                  .starts_with("messages[0].content[0].text: "));
}

TEST(ItemsConversion, MakesOneMessageOfATurn) {
  std::vector<std::string> left_out;
  const Json instructions = json(R"("Be kind.")");
  const auto out = chat_messages_of_items(&instructions, json(R"([{"role": "user", "content": "q"},
      {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]},
      {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
      {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
      {"type": "custom_tool_call", "call_id": "d", "name": "patch", "input": "p"},
      {"type": "function_call_output", "call_id": "c", "output": "r"}, {"type": "compaction"}])"),
                                          left_out);
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(
      dump_json(*out),
      R"([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "q", "type": "message"}, )"
      R"({"role": "assistant", "content": "a", "reasoning_content": "t", "tool_calls": [{"name": "f", "arguments": "{}"}, )"
      R"({"name": "patch", "arguments": {"input": "p"}}]}, {"role": "tool", "content": "r"}])");
  EXPECT_EQ(left_out, std::vector<std::string>{"input[6]: compaction"});
}

TEST(Fields, AreUsedIgnoredOrRefused) {
  const Json object = json(R"({"a": 1.0, "b": true, "c": null, "d": "x", "e": 5})");
  Fields fields(object);
  EXPECT_EQ(*fields.integer("a", {0, 2, "0 .. 2"}), 1);
  EXPECT_EQ(*fields.boolean("b"), true);
  EXPECT_EQ(*fields.boolean("c"), std::nullopt);
  EXPECT_EQ(fields.boolean("d").error().message, "d: found a string, expected true or false");
  EXPECT_EQ(fields.integer("e", {0, 2, "0 .. 2"}).error().message, "e: 5, expected 0 .. 2");
  EXPECT_FALSE(fields.refuse_unless("e", {"1"}, "not served"));
  EXPECT_TRUE(fields.refuse_unless("e", {"5"}, "not served"));
  EXPECT_TRUE(fields.ignored().empty());
  EXPECT_EQ(Fields(object).ignored(), (std::vector<std::string>{"a", "b", "d", "e"}));
}

}  // namespace
}  // namespace lily::server
