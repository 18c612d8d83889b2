// Reading conversations: what is accepted, what is refused, and that errors name the place.
#include "text/chat_parse.h"

#include <gtest/gtest.h>

namespace lily {
namespace {

std::string error_of(std::string_view json) {
  const auto conversation = parse_conversation(json);
  return conversation ? "accepted" : conversation.error().message;
}

std::string user_error(const std::string& content) {
  return error_of(R"({"messages": [{"role": "user", "content": )" + content + "}]}");
}

std::string call_error(const std::string& calls) {
  return error_of(R"({"messages": [{"role": "user"}, {"role": "assistant", "tool_calls": )" +
                  calls + "}]}");
}

TEST(ChatParse, ReadsEveryField) {
  const auto read = parse_conversation(R"({"messages": [
      {"role": "system", "content": "s"}, {"role": "user", "content": [{"text": "a"}, {"image": "u"}, {"type": "video"}]},
      {"role": "assistant", "content": null, "reasoning_content": "r",
       "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"z": 1, "a": "x"}}}, {"name": "g"}]},
      {"role": "tool", "tool_call_id": "1", "content": "t"}],
      "tools": [{"name": "f"}],
      "options": {"add_generation_prompt": false, "enable_thinking": false, "preserve_thinking": true, "add_vision_id": true}})");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  ASSERT_EQ(read->messages.size(), 4U);
  EXPECT_EQ(read->messages[0].role, Role::kSystem);
  ASSERT_EQ(read->messages[1].content.size(), 3U);
  EXPECT_EQ(read->messages[1].content[1].kind, ContentPart::Kind::kImage);
  EXPECT_EQ(read->messages[1].content[2].kind, ContentPart::Kind::kVideo);
  EXPECT_EQ(read->messages[2].reasoning, "r");
  ASSERT_EQ(read->messages[2].tool_calls.size(), 2U);
  EXPECT_EQ(dump_json(read->messages[2].tool_calls[0].arguments), R"({"z": 1, "a": "x"})");
  EXPECT_EQ(dump_json(read->messages[2].tool_calls[1].arguments), "{}");
  EXPECT_EQ(read->tools.size(), 1U);
  EXPECT_FALSE(read->options.add_generation_prompt || read->options.enable_thinking);
  EXPECT_TRUE(read->options.preserve_thinking && read->options.add_vision_id);
}

TEST(ChatParse, UnknownKeysAreRefusedByName) {
  EXPECT_EQ(error_of(R"({"messages": [], "model": "x"})"),
            "conversation: unknown key \"model\", expected messages, tools or options");
  EXPECT_EQ(error_of(R"({"options": {"thinking": true}})").substr(0, 34),
            "options: unknown key \"thinking\", e");
}

TEST(ChatParse, OptionsAreTrueOrFalse) {
  EXPECT_EQ(error_of(R"({"options": {"enable_thinking": "false"}})"),
            "options.enable_thinking: found a string, expected true or false");
  EXPECT_EQ(error_of(R"({"options": {"enable_thinking": null}})"), "accepted");
}

TEST(ChatParse, BadContentIsNamed) {
  EXPECT_EQ(user_error("3"),
            "messages[0].content: found a number, expected a string, a list or null");
  EXPECT_EQ(user_error("{}"),
            "messages[0].content: found an object, expected a string, a list or null");
  EXPECT_EQ(user_error(R"([{"text": "a"}, 3])"),
            "messages[0].content[1]: found a number, expected an object");
  EXPECT_EQ(user_error(R"([{"text": 3}])"),
            "messages[0].content[0].text: found a number, expected a string");
  EXPECT_EQ(user_error(R"([{"type": "text"}])"),
            "messages[0].content[0]: expected a text, image or video part, found type \"text\"");
}

TEST(ChatParse, BadRolesAreNamed) {
  EXPECT_EQ(error_of(R"({"messages": [{"role": "user"}, {"role": "developer"}]})"),
            "messages[1].role: found \"developer\", expected system, user, assistant or tool");
  EXPECT_EQ(error_of(R"({"messages": [{"content": "x"}]})"), "messages[0].role: missing");
  EXPECT_EQ(error_of(R"({"messages": [3]})"),
            "messages[0].role: found a number, expected an object with a role around it");
}

TEST(ChatParse, BadCallsAreNamed) {
  EXPECT_EQ(call_error(R"([{"name": "f"}, {"name": "f", "arguments": "{}"}])"),
            "messages[1].tool_calls[1].arguments: found a string, expected an object");
  EXPECT_EQ(call_error(R"([{"function": {"arguments": {}}}])"),
            "messages[1].tool_calls[0].function.name: missing");
  EXPECT_EQ(call_error(R"([{"function": null}])"),
            "messages[1].tool_calls[0].function: found null, expected an object");
  EXPECT_EQ(call_error(R"("call")"), "messages[1].tool_calls: found a string, expected a list");
  for (const char* none : {"null", "[]", "{}", "\"\""})
    EXPECT_EQ(call_error(none), "accepted") << none;
}

TEST(ChatParse, ToolsAreObjects) {
  EXPECT_EQ(error_of(R"({"tools": [{}, "f"]})"), "tools[1]: found a string, expected an object");
  EXPECT_EQ(error_of(R"({"tools": {}})"), "tools: found an object, expected a list or null");
}

TEST(ChatParse, ListsAreBounded) {
  std::string parts = "[{\"text\": \"\"}";
  for (std::size_t i = 0; i < kMaxParts; ++i) parts += ",{\"text\": \"\"}";
  EXPECT_EQ(user_error(parts + "]"), "messages[0].content: 65537 entries, at most 65536");
}

}  // namespace
}  // namespace lily
