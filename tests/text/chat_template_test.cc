// The native chat template against recorded and random renders of the Jinja one, and what may
// become a control token.
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "text/chat_parse.h"
#include "text/chat_text.h"

namespace lily {
namespace {

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A recorded case without its name and its outcome: what parse_conversation reads.
std::string input_of(const Json& recorded) {
  Json input = Json::object();
  for (const char* key : {"messages", "tools", "options"}) input.set(key, *recorded.find(key));
  return dump_json(input);
}

Result<RenderedPrompt> render_json(std::string_view json) {
  LILY_TRY(const auto conversation, parse_conversation(json));
  return render_chat(conversation);
}

// The text, or the error's message.
std::string rendered(std::string_view json) {
  const auto prompt = render_json(json);
  return prompt ? prompt->text() : prompt.error().message;
}

void expect_as_recorded(const Json& recorded) {
  const auto prompt = render_json(input_of(recorded));
  if (const Json* text = recorded.find("text")) {
    ASSERT_TRUE(prompt.has_value()) << prompt.error().message << "\n" << dump_json(recorded);
    ASSERT_EQ(prompt->text(), text->text) << dump_json(recorded);
  } else {
    ASSERT_FALSE(prompt.has_value()) << dump_json(recorded);
    EXPECT_EQ(prompt.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(ChatTemplate, RecordedRendersAreEqual) {
  const auto cases = parse_json(slurp(LILY_SOURCE_DIR "/tests/golden/template.json"));
  ASSERT_TRUE(cases.has_value()) << cases.error().message;
  ASSERT_EQ(cases->items.size(), 143U);
  for (const Json& recorded : cases->items) {
    expect_as_recorded(recorded);
  }
}

// tools/random_conversations.py writes the file; its path comes from LILY_RANDOM_CONVERSATIONS.
TEST(ChatTemplate, RandomRendersAreEqual) {
  const char* path = std::getenv("LILY_RANDOM_CONVERSATIONS");
  if (path == nullptr)
    GTEST_SKIP() << "LILY_RANDOM_CONVERSATIONS names no file of tools/random_conversations.py";
  std::ifstream in(path);
  ASSERT_TRUE(in) << path;
  std::size_t n_cases = 0;
  for (std::string line; std::getline(in, line); ++n_cases) {
    const auto recorded = parse_json(line);
    ASSERT_TRUE(recorded.has_value()) << recorded.error().message << " in case " << n_cases;
    ASSERT_NO_FATAL_FAILURE(expect_as_recorded(*recorded)) << "case " << n_cases;
  }
  EXPECT_GT(n_cases, 0U);
  std::printf("%zu random conversations\n", n_cases);
}

std::string marked(const RenderedPrompt& prompt) {
  std::string out;
  for (const TextPiece& piece : prompt.pieces()) {
    if (!piece.trusted) out += '{';
    out += piece.text;
    if (!piece.trusted) out += '}';
  }
  return out;
}

TEST(ChatTemplate, OnlyTheTemplatesOwnMarkupIsTrusted) {
  const auto prompt = render_json(R"({"messages": [
      {"role": "system", "content": "<|im_end|>s"},
      {"role": "user", "content": [{"text": "<|im_start|> "}, {"type": "image"}, {"text": "</think>"}]},
      {"role": "assistant", "content": "<think>r<|im_end|></think><tool_call>",
       "tool_calls": [{"name": "<tool_call>", "arguments": {"</think>": "<think>", "n": ["<|im_end|>"]}}]},
      {"role": "tool", "content": "<tool_response>"}],
      "tools": [{"name": "<|im_end|>"}]})");
  ASSERT_TRUE(prompt.has_value()) << prompt.error().message;
  const std::string text = marked(*prompt);
  EXPECT_EQ(
      text.substr(0, text.find("\n</tools>")),
      "<|im_start|>system\n# Tools\n\nYou have access to the following functions:\n\n<tools>\n"
      "{{\"name\": \"<|im_end|>\"}}");
  EXPECT_EQ(
      text.substr(text.find("</IMPORTANT>")),
      "</IMPORTANT>\n\n{<|im_end|>s}<|im_end|>\n<|im_start|>user\n{<|im_start|> }"
      "<|vision_start|><|image_pad|><|vision_end|>{</think>}<|im_end|>\n"
      "<|im_start|>assistant\n<think>\n{r<|im_end|>}\n</think>\n\n{<tool_call>}\n\n"
      "<tool_call>\n<function={<tool_call>}>\n<parameter={</think>}>\n{<think>}\n</parameter>\n"
      "<parameter={n}>\n{[\"<|im_end|>\"]}\n</parameter>\n</function>\n</tool_call><|im_end|>\n"
      "<|im_start|>user\n<tool_response>\n{<tool_response>}\n</tool_response><|im_end|>\n"
      "<|im_start|>assistant\n<think>\n");
}

TEST(ChatTemplate, PiecesJoinToTheText) {
  const auto prompt = render_json(R"({"messages": [{"role": "user", "content": "a"}]})");
  ASSERT_TRUE(prompt.has_value());
  std::string joined;
  for (const TextPiece& piece : prompt->pieces()) {
    EXPECT_FALSE(piece.text.empty());
    joined += piece.text;
  }
  EXPECT_EQ(joined, prompt->text());
  EXPECT_EQ(prompt->pieces().size(), 3U);
}

TEST(ChatTemplate, PlaceholdersAreCounted) {
  const auto prompt =
      render_json(R"({"messages": [{"role": "user", "content": [{"type": "image"}, {"video": 1}]},
      {"role": "tool", "content": [{"image_url": null}]}]})");
  ASSERT_TRUE(prompt.has_value());
  EXPECT_EQ(prompt->n_images, 2U);
  EXPECT_EQ(prompt->n_videos, 1U);
}

TEST(ChatTemplate, SaysWhetherTheAnswerStartsInsideThinking) {
  const auto in_thinking = [](const std::string& options) {
    return render_json(R"({"messages": [{"role": "user"}], "options": )" + options + "}")
        ->in_thinking;
  };
  EXPECT_TRUE(in_thinking("{}"));
  EXPECT_TRUE(in_thinking("null"));
  EXPECT_FALSE(in_thinking(R"({"enable_thinking": false})"));
  EXPECT_FALSE(in_thinking(R"({"add_generation_prompt": false})"));
}

TEST(ChatTemplate, ErrorsNameThePlace) {
  EXPECT_EQ(rendered(R"({"messages": [{"role": "user"}, {"role": "system"}]})"),
            "messages[1]: a system message must be the first");
  EXPECT_EQ(
      rendered(
          R"({"messages": [{"role": "system", "content": [{"text": ""}, {"video": 1}]}, {"role": "user"}]})"),
      "messages[0].content[1]: a system message cannot hold pictures or videos");
  EXPECT_EQ(rendered(R"({"messages": []})"), "messages: there is no user message to answer");
}

TEST(ChatText, StripKnowsPythonsWhiteSpace) {
  const std::string space =
      "\t\n\v\f\r\x1c\x1d\x1e\x1f "
      "\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
      "\u200a\u2028\u2029\u202f\u205f\u3000";
  EXPECT_EQ(strip(space + "a" + space + "b" + space), "a" + space + "b");
  EXPECT_EQ(strip(space), "");
  for (const std::string kept :
       {"\u200b", "\ufeff", "\u180e", "\u2060", "\u200c", "\x1b", "\xa0"}) {
    EXPECT_EQ(strip(kept), kept);
  }
  EXPECT_EQ(strip_leading_newlines("\n\n \na\n"), " \na\n");
}

}  // namespace
}  // namespace lily
