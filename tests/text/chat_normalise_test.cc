// What clients really send, and what the template makes of it after normalising.
#include "text/chat_normalise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/chat_template.h"

namespace lily {
namespace {

Result<NormalisedConversation> normalised(std::string_view messages) {
  LILY_TRY(const Json json, parse_json(messages));
  return normalise_conversation(json, nullptr, {});
}

std::string rendered_messages(std::string_view messages) {
  const auto conversation = normalised(messages);
  if (!conversation) return conversation.error().message;
  const auto prompt = render_chat(conversation->conversation);
  return prompt ? prompt->text() : prompt.error().message;
}

const std::string kEnd = "<|im_end|>\n<|im_start|>assistant\n<think>\n";

// R041
TEST(ChatNormalise, SystemMessagesAnywhereBecomeOneInFront) {
  EXPECT_EQ(
      rendered_messages(
          R"([{"role": "user", "content": "Hi"}, {"role": "system", "content": "Answer in capitals."},
                         {"role": "user", "content": "Why?"}])"),
      "<|im_start|>system\nAnswer in "
      "capitals.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>user\nWhy?" +
          kEnd);
  EXPECT_EQ(
      rendered_messages(
          R"([{"role": "developer", "content": " A "}, {"role": "system", "content": ""}, {"role": "user", "content": "Hi"},
                         {"role": "system", "content": [{"type": "text", "text": "B"}, {"type": "text", "text": "C"}]}])"),
      "<|im_start|>system\nA\n\nBC<|im_end|>\n<|im_start|>user\nHi" + kEnd);
}

std::string with_arguments(const std::string& arguments) {
  return rendered_messages(
      R"([{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [{"id": "1", "type": "function",
      "function": {"name": "add", "arguments": )" +
      arguments + R"(}}]}, {"role": "tool", "tool_call_id": "1", "content": "3"},
      {"role": "user", "content": "Thanks"}])");
}

// R043
TEST(ChatNormalise, StringArgumentsRenderAsTheirObject) {
  const std::string given = with_arguments(R"({"a": 1, "b": 2})");
  EXPECT_THAT(given,
              testing::HasSubstr("<parameter=a>\n1\n</parameter>\n<parameter=b>\n2\n</parameter>"));
  EXPECT_EQ(with_arguments(R"("{\"a\": 1, \"b\": 2}")"), given);
}

TEST(ChatNormalise, EmptyArgumentsAreNone) {
  const std::string none = with_arguments("{}");
  EXPECT_THAT(none, testing::HasSubstr("<function=add>\n</function>"));
  for (const char* same : {R"("{}")", R"("")", R"(" \n")", "null", R"("null")"})
    EXPECT_EQ(with_arguments(same), none) << same;
}

TEST(ChatNormalise, ArgumentsThatDoNotParseAreKeptAsText) {
  EXPECT_THAT(with_arguments(R"("{\"a\": 1")"),
              testing::HasSubstr("<parameter=arguments>\n{\"a\": 1\n</parameter>\n</function>"));
  EXPECT_THAT(with_arguments(R"("[1]")"),
              testing::HasSubstr("<parameter=arguments>\n[1]\n</parameter>"));
  EXPECT_EQ(with_arguments("[1]"),
            "messages[1].tool_calls[0].function.arguments: found an array, expected an object or a "
            "string of JSON");
}

// R045
TEST(ChatNormalise, TextListsEqualTheirJoinedTextInEachRole) {
  for (const std::string role : {"system", "developer", "user", "assistant", "tool"}) {
    const auto with = [&](const std::string& content) {
      return rendered_messages(R"([{"role": "user", "content": "q"}, {"role": ")" + role +
                      R"(", "content": )" + content + "}]");
    };
    const std::string whole = with(R"("ab")");
    EXPECT_THAT(whole, testing::HasSubstr("\nab")) << role;
    EXPECT_EQ(with(R"([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])"), whole);
    EXPECT_EQ(
        with(R"([{"type": "input_text", "text": "a"}, {"type": "output_text", "text": "b"}])"),
        whole);
    EXPECT_EQ(with(R"([{"type": "text", "text": "ab"}])"), whole);
  }
}

// R047
TEST(ChatNormalise, NoContentIsOneThingHoweverItIsSaid) {
  const auto with = [](const std::string& content) {
    return rendered_messages(R"([{"role": "user", "content": "q"}, {"role": "assistant")" + content +
                    R"(, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}])");
  };
  const std::string absent = with("");
  EXPECT_THAT(absent, testing::HasSubstr("</think>\n\n<tool_call>"));
  for (const char* same : {R"(, "content": null)", R"(, "content": "")", R"(, "content": [])"})
    EXPECT_EQ(with(same), absent);
  EXPECT_THAT(rendered_messages(R"([{"role": "user"}, {"role": "assistant"}])"),
              testing::HasSubstr("</think>\n\n<|im_end|>"));
}

TEST(ChatNormalise, OlderAndOtherNamesAreUnderstood) {
  EXPECT_EQ(
      rendered_messages(
          R"([{"role": "user", "content": "q"}, {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
                         {"role": "function", "name": "f", "content": "r"}])"),
      rendered_messages(
          R"([{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [{"name": "f"}]},
                         {"role": "tool", "content": "r"}])"));
  EXPECT_EQ(
      rendered_messages(
          R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "reasoning": "r"}])"),
      rendered_messages(
          R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "reasoning_content": "r"}])"));
}

TEST(ChatNormalise, WhatHasNoPlaceIsListed) {
  const auto out = normalised(
      R"([{"role": "user", "content": "q", "name": "Ann"}, {"role": "assistant", "content": "a",
      "tool_calls": null, "refusal": null, "audio": null, "annotations": [], "weight": 0}])");
  ASSERT_TRUE(out.has_value()) << out.error().message;
  EXPECT_THAT(out->ignored, testing::ElementsAre("messages[0].name", "messages[1].weight"));
}

TEST(ChatNormalise, FaultsAreNamed) {
  EXPECT_EQ(rendered_messages(R"([{"role": "user"}, {"role": "bot"}])"),
            "messages[1].role: found \"bot\", expected system, user, assistant or tool");
  EXPECT_EQ(rendered_messages(R"([{"role": "user"}, {"role": "assistant", "tool_calls": {"name": "f"}}])"),
            "messages[1].tool_calls: found an object, expected a list or null");
  EXPECT_EQ(rendered_messages(R"([{"role": "user", "tool_calls": [{"name": "f"}]}])"),
            "messages[0].tool_calls: only an assistant message can hold calls");
  EXPECT_EQ(rendered_messages(R"([{"role": "user"}, {"role": "assistant", "reasoning_content": 3}])"),
            "messages[1].reasoning_content: found a number, expected a string or null");
  EXPECT_EQ(
      rendered_messages(R"([{"role": "user"}, {"role": "system", "content": [{"type": "input_image"}]}])"),
      "messages[1]: a system message cannot hold pictures or videos");
  EXPECT_EQ(rendered_messages(R"({"role": "user"})"), "messages: found an object, expected a list");
}

TEST(ChatNormalise, ToolsAndOptionsAreTakenOver) {
  const auto messages = parse_json(R"([{"role": "user"}])"),
             tools = parse_json(R"([{"name": "f"}])");
  const auto out = normalise_conversation(*messages, &*tools, {.enable_thinking = false});
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->conversation.tools.size(), 1U);
  EXPECT_FALSE(out->conversation.options.enable_thinking);
}

}  // namespace
}  // namespace lily
