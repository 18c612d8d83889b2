// Tools in every shape that clients send, and which of them may be called.
#include "server/tool_list.h"

#include <gtest/gtest.h>

#include "server/custom_call.h"
#include "server/json_build.h"

namespace lily::server {
namespace {

Result<ToolList> read(const char* text) {
  const auto json = parse_json(text);
  EXPECT_TRUE(json) << text;
  return read_tool_list(&*json);
}

TEST(ToolList, PrintsTheUsualFormAsItCame) {
  const char* text =
      R"([{"type": "function", "function": {"name": "f", "strict": true, "parameters": {"type": "object"}}}])";
  const auto tools = read(text);
  ASSERT_TRUE(tools);
  EXPECT_EQ(dump_json(json_list({tools->specs[0].json})), text);
}

TEST(ToolList, BringsOtherFormsIntoIt) {
  const auto tools = read(
      R"([{"type": "function", "name": "f", "parameters": {}}, {"name": "g", "input_schema": {"a": 1}},
                              {"type": "custom", "name": "patch"}, {"type": "custom", "custom": {"name": "sql"}},
                              {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "h"}]},
                              {"type": "web_search"}, {"type": "custom", "name": "anthropic", "input_schema": {}}])");
  ASSERT_TRUE(tools) << tools.error().message;
  for (const char* name : {"f", "g", "patch", "sql", "h", "anthropic"})
    EXPECT_TRUE(tools->contains(name)) << name;
  EXPECT_EQ(tools->specs.size(), 6u);
  EXPECT_EQ(dump_json(tools->specs[1].json),
            R"({"type": "function", "function": {"name": "g", "parameters": {"a": 1}}})");
  EXPECT_TRUE(tools->is_custom("patch"));
  EXPECT_TRUE(tools->is_custom("sql"));
  EXPECT_FALSE(tools->is_custom("anthropic"));
  EXPECT_EQ(tools->space_of("h"), "n");
  EXPECT_EQ(tools->left_out, std::vector<std::string>{"tools[5]: web_search is not run here"});
}

TEST(ToolList, RefusesByPlace) {
  const auto message = [](const char* text) { return read(text).error().message; };
  EXPECT_TRUE(message("{}").starts_with("tools: ")) << message("{}");
  EXPECT_TRUE(message("[1]").starts_with("tools[0]: "));
  EXPECT_TRUE(message(R"([{"type": "function", "function": {}}])")
                  .starts_with("tools[0].function.name: missing"));
  EXPECT_TRUE(message(R"([{"name": "a<b"}])").starts_with("tools[0].name: "));
  EXPECT_TRUE(message(R"([{"name": "a", "parameters": 5}])").starts_with("tools[0].parameters: "));
  std::string deep = R"([{"name": "a", "parameters": )";
  for (int i = 0; i < 70; ++i) deep += R"({"x": )";
  deep += "1" + std::string(70, '}') + "}]";
  EXPECT_TRUE(message(deep.c_str()).starts_with("tools[0].parameters: 70 levels"));
}

TEST(ToolChoice, HasOneMeaningInEveryDialect) {
  using Kind = ToolChoice::Kind;
  const ToolList tools = *read(R"([{"name": "f"}])");
  const auto kind = [&](const char* text) {
    const auto json = parse_json(text);
    const auto choice = read_tool_choice(&*json, tools);
    return choice ? static_cast<int>(choice->kind) : -1;
  };
  EXPECT_EQ(kind(R"("auto")"), static_cast<int>(Kind::kAuto));
  EXPECT_EQ(kind(R"({"type": "auto"})"), static_cast<int>(Kind::kAuto));
  EXPECT_EQ(kind(R"("none")"), static_cast<int>(Kind::kNone));
  EXPECT_EQ(kind(R"("required")"), static_cast<int>(Kind::kAny));
  EXPECT_EQ(kind(R"({"type": "any"})"), static_cast<int>(Kind::kAny));
  EXPECT_EQ(kind(R"({"type": "tool", "name": "f"})"), static_cast<int>(Kind::kNamed));
  EXPECT_EQ(kind(R"({"type": "function", "function": {"name": "f"}})"),
            static_cast<int>(Kind::kNamed));
  EXPECT_EQ(kind(R"({"type": "function", "name": "g"})"), -1);
  EXPECT_EQ(kind("5"), -1);
  const auto required = json_text("required");
  EXPECT_FALSE(read_tool_choice(&required, ToolList{}));
}

TEST(CustomCalls, WaitForTheWholeCall) {
  ToolList tools;
  tools.custom = {"patch"};
  CustomCalls calls(tools);
  using Kind = ReplyEvent::Kind;
  std::optional<CustomCalls::Call> whole;
  EXPECT_FALSE(calls.take(0, {Kind::kCallStart, "f", 0}, whole));
  EXPECT_FALSE(calls.take(0, {Kind::kCallArguments, "{}", 0}, whole));
  EXPECT_TRUE(calls.take(0, {Kind::kCallStart, "patch", 1}, whole));
  EXPECT_TRUE(calls.take(0, {Kind::kCallArguments, R"({"input": "a\n)", 1}, whole));
  EXPECT_TRUE(calls.take(0, {Kind::kCallArguments, R"(b"})", 1}, whole));
  EXPECT_FALSE(whole);
  EXPECT_TRUE(calls.take(0, {Kind::kCallEnd, "", 1}, whole));
  ASSERT_TRUE(whole);
  EXPECT_EQ(custom_input(whole->arguments), "a\nb");
  EXPECT_EQ(custom_input("{}"), "{}");
}

}  // namespace
}  // namespace lily::server
