// Any bytes as an answer, cut into pieces by its own first bytes: streamed, it must come out as the
// whole does, and complete calls must have arguments that are JSON.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/chat_parse.h"
#include "text/reply_parser.h"

namespace {

const lily::ToolSchemas& tools() {
  static const lily::ToolSchemas known(*lily::read_tools(*lily::parse_json(R"([
      {"name": "f", "parameters": {"properties": {"s": {"type": "string"}, "i": {"type": "integer"}, "o": {"type": "object"},
       "l": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#/properties/l"}]}}}}}, {"name": "g"}])")));
  return known;
}

lily::ReplyOptions options_of(std::uint8_t bits) {
  lily::ReplyOptions options;
  options.starts_in_thinking = (bits & 1) != 0;
  options.calls.enabled = (bits & 2) == 0;
  options.calls.parallel = (bits & 4) == 0;
  options.calls.delivery =
      (bits & 8) != 0 ? lily::CallDelivery::kWhole : lily::CallDelivery::kStreamed;
  return options;
}

bool equal(const lily::Reply& a, const lily::Reply& b) {
  const auto same_call = [](const auto& x, const auto& y) {
    return x.name == y.name && x.arguments == y.arguments && x.complete == y.complete;
  };
  return a.reasoning == b.reasoning && a.content == b.content &&
         std::equal(a.calls.begin(), a.calls.end(), b.calls.begin(), b.calls.end(), same_call) &&
         a.summary.n_calls == b.summary.n_calls &&
         a.summary.thinking_unfinished == b.summary.thinking_unfinished &&
         a.summary.cut.has_value() == b.summary.cut.has_value();
}

bool is_utf8(std::string_view text) {
  return lily::parse_json(lily::dump_json(lily::Json::string(std::string(text)))).has_value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kHead = 5;  // Options, then sizes of pieces, used in turn.
  if (size < kHead) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + kHead, size - kHead);
  const auto options = options_of(data[0]);
  lily::ReplyParser parser(tools(), options);
  std::vector<lily::ReplyEvent> events;
  std::size_t turn = 0;
  for (std::size_t at = 0; at < text.size(); ++turn) {
    const std::size_t piece = 1 + data[1 + turn % (kHead - 1)];
    parser.feed(text.substr(at, piece), events);
    at += piece;
  }
  lily::ReplySummary summary = parser.finish(events);
  const lily::Reply streamed = lily::join_events(events, std::move(summary));
  if (!equal(streamed, lily::parse_reply(text, tools(), options))) std::abort();
  if (!is_utf8(text)) return 0;
  for (const auto& call : streamed.calls) {
    if (call.complete && !lily::parse_json(call.arguments)) std::abort();
  }
  return 0;
}
