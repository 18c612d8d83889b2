// Answers taken apart: thinking, content, calls; whole and in random pieces.
#include "text/reply_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "text/chat_parse.h"
#include "text/chat_template.h"

namespace lily {
namespace {

ToolSchemas tools() {
  const auto json = parse_json(R"([
      {"type": "function", "function": {"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}}},
      {"type": "function", "function": {"name": "add", "parameters": {"properties": {"a": {"type": "number"}, "b": {"type": "number"}}}}},
      {"type": "function", "function": {"name": "set_timer", "parameters": {"properties": {"minutes": {"type": "integer"},
          "label": {"type": "string"}}}}},
      {"type": "function", "function": {"name": "find_file", "parameters": {"properties": {"name": {"type": "string"}}}}}])");
  return ToolSchemas(*read_tools(*json));
}

std::string unwrapped(const std::string& name, const std::string& key, const std::string& value) {
  return "<function=" + name + ">\n<parameter=" + key + ">\n" + value +
         "\n</parameter>\n</function>";
}
std::string call(const std::string& name, const std::string& key, const std::string& value) {
  return "<tool_call>\n" + unwrapped(name, key, value) + "\n</tool_call>";
}

constexpr ReplyOptions kAnswering{.starts_in_thinking = false, .calls = {}};
constexpr ReplyOptions kThinking{.starts_in_thinking = true, .calls = {}};
constexpr ReplyOptions kWholeCalls{.starts_in_thinking = false,
                                   .calls = {.delivery = CallDelivery::kWhole}};

// One line for a whole reply: reasoning | content | name arguments ...; an incomplete call ends in
// "...".
std::string shown(const Reply& reply) {
  std::string out = reply.reasoning + "|" + reply.content + "|";
  for (const auto& one : reply.calls)
    out += " " + one.name + " " + one.arguments + (one.complete ? "" : "...");
  return out + (reply.summary.thinking_unfinished ? " unfinished" : "");
}

// Fed byte by byte it must come out the same; every test goes through here.
std::string parsed(std::string_view text, const ReplyOptions& options,
                   const ToolSchemas& known = tools()) {
  const std::string whole = shown(parse_reply(text, known, options));
  ReplyParser parser(known, options);
  std::vector<ReplyEvent> events;
  for (const char c : text) parser.feed(std::string_view(&c, 1), events);
  ReplySummary summary = parser.finish(events);
  EXPECT_EQ(shown(join_events(events, std::move(summary))), whole) << text;
  return whole;
}

TEST(ReplyParser, ThinkingEndsAtItsFirstClosingTag) {
  EXPECT_EQ(parsed("\nLet me\n\nsee.\n</think>\n\nIt is 5.\n", kThinking),
            "Let me\n\nsee.|It is 5.\n|");
  EXPECT_EQ(parsed("a</think>b</think>c", kThinking), "a|b</think>c|");
  EXPECT_EQ(parsed("\n</think>\n\nHi", kThinking), "|Hi|");
  EXPECT_EQ(parsed("a < b </thin </think>\n\n\n", kThinking), "a < b </thin ||");
}

// R049, R051
TEST(ReplyParser, UnfinishedThinkingIsReasoning) {
  EXPECT_EQ(parsed("17 + 25 is\n", kThinking), "17 + 25 is|| unfinished");
  EXPECT_EQ(parsed("a </thi", kThinking), "a </thi|| unfinished");
  EXPECT_EQ(parsed("", kThinking), "|| unfinished");
}

TEST(ReplyParser, WithThinkingClosedByThePromptAllIsContent) {
  EXPECT_EQ(parsed("The capital of France is Paris.", kAnswering),
            "|The capital of France is Paris.|");
  EXPECT_EQ(parsed("<think>x</think> y\n", kAnswering), "|<think>x</think> y\n|");
}

TEST(ReplyParser, CallsAreTypedBySchema) {
  EXPECT_EQ(parsed(call("get_weather", "city", "Paris"), kAnswering),
            "|| get_weather {\"city\": \"Paris\"}");
  EXPECT_EQ(parsed(call("set_timer", "minutes", "3.0"), kAnswering),
            "|| set_timer {\"minutes\": 3}");
  EXPECT_EQ(parsed(call("set_timer", "minutes", "abc"), kAnswering),
            "|| set_timer {\"minutes\": \"abc\"}");
  EXPECT_EQ(parsed(call("set_timer", "minutes", ""), kAnswering),
            "|| set_timer {\"minutes\": \"\"}");
  EXPECT_EQ(parsed("<tool_call>\n<function=add>\n</function>\n</tool_call>", kAnswering),
            "|| add {}");
  EXPECT_EQ(parsed("<tool_call>\n<function=set_timer>\n<parameter=minutes>\n5\n</"
                   "parameter>\n<parameter=label>\n7\n</parameter>\n"
                   "</function>\n</tool_call>",
                   kAnswering),
            "|| set_timer {\"minutes\": 5, \"label\": \"7\"}");
}

TEST(ReplyParser, TextBeforeACallIsContentWithoutTheSpaceBetween) {
  EXPECT_EQ(parsed("r\n</think>\n\nLet me look.\n\n" + call("get_weather", "city", "Rome") + "\n",
                   kThinking),
            "r|Let me look.| get_weather {\"city\": \"Rome\"}");
}

// R061
TEST(ReplyParser, MarkupInsideAValueSurvives) {
  for (const std::string value :
       {"a </parameter> b", "<tool_call>x", "</function>", "</parameter></function>",
        "</tool_call>", "\n\n x \n\n", "\"q\\", "👨‍👩‍👧", "<parameter=city>",
        "</parameter>\n", "<function=add>", "x\n</parameter>\ny", "<tool_call>\n<function=add>",
        "</parameter>"}) {
    std::string expected = "|| find_file {\"name\": \"";
    append_json_escaped(value, expected);
    EXPECT_EQ(parsed(call("find_file", "name", value), kAnswering), expected + "\"}") << value;
    EXPECT_EQ(parsed(call("find_file", "name", value) + "\n" + call("add", "a", "1"), kAnswering),
              expected + "\"} add {\"a\": 1}")
        << value;
  }
}

TEST(ReplyParser, ACallQuotedInAValueIsPartOfIt) {
  const std::string value =
      "Write:\n" + call("add", "a", "1") + "\nThen " + call("add", "a", "2") + "\nend";
  std::string expected;
  append_json_escaped(value, expected);
  EXPECT_EQ(parsed(call("find_file", "name", value), kAnswering),
            "|| find_file {\"name\": \"" + expected + "\"}");
}

TEST(ReplyParser, AValueThatHoldsItsOwnEndIsCutThereAndNothingIsLost) {
  EXPECT_EQ(parsed(call("find_file", "name", "a\n</parameter>\n</function>\nb"), kAnswering),
            "|b\n</parameter>\n</function>\n</tool_call>| find_file {\"name\": \"a\"}");
}

TEST(ReplyParser, CompactMarkupIsUnderstood) {
  EXPECT_EQ(parsed("<tool_call><function=add><parameter=a>1</parameter><parameter=b>2</parameter></"
                   "function></tool_call>",
                   kAnswering),
            "|| add {\"a\": 1, \"b\": 2}");
  EXPECT_EQ(parsed("<tool_call>\n<function=get_weather>\n<parameter=city>\nRome</parameter>\n</"
                   "function>\n</tool_call>",
                   kAnswering),
            "|| get_weather {\"city\": \"Rome\"}");
  EXPECT_EQ(parsed("<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n</"
                   "tool_call>ok",
                   kAnswering),
            "|ok| get_weather {\"city\": \"Rome\"}");
}

// R063
TEST(ReplyParser, ACutCallIsNeverComplete) {
  const std::string whole = "Wait.\n\n" + call("get_weather", "city", "Paris");
  const std::size_t complete = whole.find("</function>") + std::string("</function>").size();
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const std::string text = whole.substr(0, size);
    const Reply streamed = parse_reply(text, tools(), kAnswering),
                held = parse_reply(text, tools(), kWholeCalls);
    EXPECT_EQ(streamed.summary.n_calls, size >= complete ? 1U : 0U);
    EXPECT_EQ(held.calls.size(), size >= complete ? 1U : 0U);
    for (const auto& one : streamed.calls) EXPECT_EQ(one.complete, size >= complete);
    const bool opened = size >= whole.find("weather>") + 8;
    EXPECT_EQ(streamed.summary.cut.has_value(), opened && size < complete) << text;
    EXPECT_EQ(streamed.summary.cut ? streamed.summary.cut->text
                                   : text.substr(std::min<std::size_t>(size, 7)),
              text.substr(std::min<std::size_t>(size, 7)));
    EXPECT_EQ(held.content, size < complete ? text : "Wait.");
  }
}

// R065
TEST(ReplyParser, SeveralCallsKeepTheirOrderAndTheTextBetween) {
  const std::string reply = "One.\n\n" + call("get_weather", "city", "Paris") + "\nTwo.\n" +
                            call("get_weather", "city", "Rome") + "\n" + call("add", "a", "1") +
                            "\n";
  EXPECT_EQ(parsed(reply, kAnswering),
            "|One.\n\n\nTwo.| get_weather {\"city\": \"Paris\"} get_weather {\"city\": \"Rome\"} "
            "add {\"a\": 1}");
  std::vector<ReplyEvent> events;
  ReplyParser parser(tools(), kAnswering);
  parser.feed(reply, events);
  std::vector<std::size_t> starts;
  for (const auto& event : events) {
    if (event.kind == ReplyEvent::Kind::kCallStart) starts.push_back(event.call_idx);
  }
  EXPECT_THAT(starts, testing::ElementsAre(0U, 1U, 2U));
}

TEST(ReplyParser, WithoutParallelCallsTheFirstEndsTheAnswer) {
  const ReplyOptions one{.starts_in_thinking = false, .calls = {.parallel = false}};
  const std::string reply = "x " + call("add", "a", "1") + "\n" + call("add", "a", "2") + " y";
  EXPECT_EQ(parsed(reply, one), "|x| add {\"a\": 1}");
  ReplyParser parser(tools(), one);
  std::vector<ReplyEvent> events;
  parser.feed("x " + call("add", "a", "1"), events);
  EXPECT_TRUE(parser.is_done());
}

// R067
TEST(ReplyParser, ACallWithoutItsWrapperIsRecoveredForKnownTools) {
  const std::string known = unwrapped("get_weather", "city", "Rome"),
                    unknown = unwrapped("fly", "to", "Rome");
  EXPECT_EQ(parsed("So: " + known, kAnswering), "|So:| get_weather {\"city\": \"Rome\"}");
  EXPECT_EQ(parsed(known + "\n</tool_call>\n", kAnswering), "|| get_weather {\"city\": \"Rome\"}");
  EXPECT_EQ(parsed(unknown, kAnswering), "|" + unknown + "|");
  EXPECT_EQ(parsed(known, kAnswering, ToolSchemas()), "|" + known + "|");
  for (const std::string fence : {"```", "~~~~", "  ```xml"}) {
    const std::string end = fence.substr(fence.find_first_not_of(' '), fence[0] == '~' ? 4 : 3);
    const std::string code = fence + "\n" + known + "\n" + end + "\n";
    EXPECT_EQ(parsed(code, kAnswering), "|" + code + "|");
    EXPECT_EQ(parsed(code + known, kAnswering),
              "|" + code.substr(0, code.size() - 1) + "| get_weather {\"city\": \"Rome\"}");
  }
}

TEST(ReplyParser, AnUnwrappedCallWithABrokenBodyStaysText) {
  for (const std::string text :
       {"<function=add> is how", "<function=add>\n<parameter=a>\n1\n",
        "<function=add>\n<parameter=a>\n1\n</parameter>\nx</function>",
        "<function=add>\n</tool_call>", "<function=add>\n", "<function=add"}) {
    EXPECT_EQ(parsed(text, kAnswering), "|" + text + "|");
  }
  EXPECT_EQ(parsed("<function=add> is " + call("add", "a", "1"), kAnswering),
            "|<function=add> is| add {\"a\": 1}");
}

TEST(ReplyParser, AWrappedCallOfAnUnknownToolIsACall) {
  EXPECT_EQ(parsed(call("fly", "to", "5"), kAnswering), "|| fly {\"to\": 5}");
}

// R069
TEST(ReplyParser, WithCallsOffMarkupIsText) {
  const ReplyOptions off{.starts_in_thinking = true, .calls = {.enabled = false}};
  const std::string text = " a " + call("add", "a", "1") + "\n";
  EXPECT_EQ(parsed("r</think>" + text, off), "r|" + text + "|");
  EXPECT_EQ(parsed(text, kAnswering, ToolSchemas()), "|" + text + "|");
}

// R071
TEST(ReplyParser, TextWithoutACallIsExactlyTheText) {
  EXPECT_EQ(parsed("I will look at the file now. \n", kAnswering),
            "|I will look at the file now. \n|");
  EXPECT_EQ(parsed(" \n", kAnswering), "| \n|");
  EXPECT_EQ(parsed("a <tool_call> b <tool_call>\nc <function=> <tool_ca", kAnswering),
            "|a <tool_call> b <tool_call>\nc <function=> <tool_ca|");
}

TEST(ReplyParser, CallsThatEndUnfinishedThinkingAreRecovered) {
  const std::string weather = call("get_weather", "city", "Rome");
  EXPECT_EQ(parsed("I call it.\n" + weather, kThinking),
            "I call it.|| get_weather {\"city\": \"Rome\"}");
  EXPECT_EQ(parsed("Two.\n" + weather + "\n" + call("add", "a", "1") + "\n", kThinking),
            "Two.|| get_weather {\"city\": \"Rome\"} add {\"a\": 1}");
  EXPECT_EQ(parsed("No wrapper: " + unwrapped("add", "a", "1"), kThinking),
            "No wrapper: || add {\"a\": 1}");
}

TEST(ReplyParser, CallsInsideThinkingThatGoesOnAreThoughts) {
  const std::string weather = call("get_weather", "city", "Rome");
  EXPECT_EQ(parsed("Maybe " + weather + " or not.\n</think>\n\nNo.", kThinking),
            "Maybe " + weather + " or not.|No.|");
  EXPECT_EQ(parsed("Maybe " + weather + " or not", kThinking),
            "Maybe " + weather + " or not|| unfinished");
  EXPECT_EQ(parsed("Maybe " + weather + " no: " + call("add", "a", "1"), kThinking),
            "Maybe " + weather + " no: || add {\"a\": 1}");
  EXPECT_EQ(parsed("Cut " + weather.substr(0, 50), kThinking),
            "Cut " + weather.substr(0, 50) + "|| unfinished");
  EXPECT_EQ(parsed("Plan: " + weather + "\n</think>\n\n" + weather, kThinking),
            "Plan: " + weather + "|| get_weather {\"city\": \"Rome\"}");
}

TEST(ReplyParser, StrayTextInsideACallMovesBehindIt) {
  EXPECT_EQ(parsed("<tool_call>\n<function=add>\nnote "
                   "here\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
                   kAnswering),
            "|note here| add {\"a\": 1}");
}

TEST(ReplyParser, TextValuesStreamBeforeTheyEnd) {
  ReplyParser parser(tools(), kAnswering);
  std::vector<ReplyEvent> events;
  parser.feed("<tool_call>\n<function=find_file>\n<parameter=name>\nabc\n", events);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].text, "find_file");
  EXPECT_EQ(events[1].text, "{\"name\": \"abc");
  parser.feed("d", events);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[2].text, "\\nd");
}

TEST(ReplyParser, LongHostileAnswersAreTakenApartInTime) {
  for (const std::string part :
       {"<tool_call>", "<function=add>", "<function=find_file><parameter=name>",
        "<tool_call>\n<function=add>\n", "<tool_call>\n<function=find_file>\n<parameter=name>\n",
        "</parameter>\n", "\n", "<", "</think"}) {
    std::string text;
    while (text.size() < 100'000) text += part;
    for (const ReplyOptions& options : {kAnswering, kThinking, kWholeCalls}) {
      const Reply reply = parse_reply(text, tools(), options);
      EXPECT_EQ(reply.summary.n_calls, 0U);
    }
  }
}

// ---- Laws

const std::vector<std::string> kAnswerParts{"a",
                                            "word ",
                                            "\n",
                                            "\n\n",
                                            " ",
                                            "é",
                                            "<",
                                            ">",
                                            "</",
                                            "```\n",
                                            "<think>",
                                            "</think>",
                                            "\n</think>\n\n",
                                            "<tool_call>",
                                            "<tool_call>\n",
                                            "</tool_call>",
                                            "\n</tool_call>",
                                            "<function=add>",
                                            "<function=get_weather>\n",
                                            "<function=fly>\n",
                                            "</function>",
                                            "\n</function>",
                                            "<parameter=a>\n",
                                            "<parameter=city>\n",
                                            "<parameter=x>",
                                            "</parameter>",
                                            "\n</parameter>\n",
                                            "1",
                                            "3.0",
                                            "{\"k\": [1]}",
                                            "null",
                                            "<tool_ca",
                                            "</param",
                                            "<function=",
                                            call("add", "a", "1"),
                                            call("get_weather", "city", "Ro\nme"),
                                            unwrapped("add", "b", "x"),
                                            call("find_file", "name", call("add", "a", "1"))};

rc::Gen<std::string> random_answer() {
  const auto parts = rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(kAnswerParts));
  return rc::gen::map(parts, [](const std::vector<std::string>& chosen) {
    std::string text;
    for (const auto& part : chosen) text += part;
    return text;
  });
}

rc::Gen<ReplyOptions> random_options() {
  return rc::gen::map(rc::gen::inRange(0, 16), [](int bits) {
    return ReplyOptions{
        .starts_in_thinking = (bits & 1) != 0,
        .calls = {.enabled = (bits & 6) != 6,
                  .parallel = (bits & 6) != 4,
                  .delivery = (bits & 8) != 0 ? CallDelivery::kWhole : CallDelivery::kStreamed}};
  });
}

RC_GTEST_PROP(ReplyParserLaws, PiecesGiveWhatTheWholeGives, ()) {
  const auto text = *random_answer();
  const auto options = *random_options();
  ReplyParser parser(tools(), options);
  std::vector<ReplyEvent> events;
  for (std::size_t at = 0; at < text.size();) {
    const auto size = *rc::gen::inRange<std::size_t>(1, 12);
    std::vector<ReplyEvent> piece;
    parser.feed(std::string_view(text).substr(at, size), piece);
    events.insert(events.end(), piece.begin(), piece.end());
    at += size;
  }
  ReplySummary summary = parser.finish(events);
  RC_ASSERT(shown(join_events(events, std::move(summary))) ==
            shown(parse_reply(text, tools(), options)));
}

RC_GTEST_PROP(ReplyParserLaws, CompleteCallsHaveValidArguments, ()) {
  const auto reply = parse_reply(*random_answer(), tools(), *random_options());
  for (const auto& one : reply.calls) {
    if (!one.complete) continue;
    const auto arguments = parse_json(one.arguments);
    RC_ASSERT(arguments.has_value() && arguments->is(JsonKind::kObject));
  }
}

// Without calls every byte comes out, but for the closing tag and the newlines around it.
RC_GTEST_PROP(ReplyParserLaws, NoByteIsLost, ()) {
  const auto text = *random_answer();
  const auto answering =
      parse_reply(text, ToolSchemas(), {.starts_in_thinking = false, .calls = {}});
  RC_ASSERT(answering.content == text);
  const auto thinking = parse_reply(text, ToolSchemas(), {.starts_in_thinking = true, .calls = {}});
  const auto without_newlines = [](std::string bytes) {
    std::erase(bytes, '\n');
    return bytes;
  };
  std::string expected = text;
  if (const auto close = text.find("</think>"); close != std::string::npos)
    expected.erase(close, 8);
  RC_ASSERT(without_newlines(thinking.reasoning + thinking.content) == without_newlines(expected));
}

// What the template writes for an assistant turn, read back, renders to the same bytes: a cached
// prefix stays valid.
RC_GTEST_PROP(ReplyParserLaws, ARenderedAnswerComesBack, ()) {
  const auto word = rc::gen::elementOf(std::vector<std::string>{
      "", "a", "b c", "x\n\ny", "é", "1 < 2", "<tool_ca", "</parameter>", "{}"});
  Conversation conversation{
      {{Role::kUser, {{ContentPart::Kind::kText, "q"}}, {}, {}}, {Role::kAssistant, {}, {}, {}}},
      {},
      {}};
  conversation.options.add_generation_prompt = false;
  Message& answer = conversation.messages[1];
  answer.reasoning = *word;
  answer.content.push_back({ContentPart::Kind::kText, *word});
  for (int i = *rc::gen::inRange(0, 3); i > 0; --i) {
    ToolCall made{"find_file", Json::object()};
    made.arguments.set("name", Json::string(*word));
    answer.tool_calls.push_back(made);
  }
  const std::string text = render_chat(conversation)->text();
  const std::size_t begin = text.find("<think>\n") + 8, end = text.rfind("<|im_end|>");
  const Reply reply = parse_reply(text.substr(begin, end - begin), tools(), kThinking);
  RC_ASSERT(reply.calls.size() == answer.tool_calls.size());
  answer =
      Message{Role::kAssistant, {{ContentPart::Kind::kText, reply.content}}, reply.reasoning, {}};
  for (const auto& one : reply.calls)
    answer.tool_calls.push_back({one.name, *parse_json(one.arguments)});
  RC_ASSERT(render_chat(conversation)->text() == text);
}

}  // namespace
}  // namespace lily
