// The thinking at an answer's beginning; the rest goes to ToolCallParser.
#include "text/reply_parser.h"

#include <algorithm>
#include <utility>

namespace lily {
namespace {

constexpr std::string_view kThinkClose = "</think>";
constexpr int kMaxTrials =
    32;  // Places in unfinished thinking at which final calls are looked for.

using Kind = ReplyEvent::Kind;

constexpr std::string_view kSpace = " \t\r\n";

bool is_space(std::string_view text) {
  return text.find_first_not_of(kSpace) == std::string_view::npos;
}

}  // namespace

ReplyParser::ReplyParser(ToolSchemas tools, ReplyOptions options)
    : body_(std::move(tools), options.calls),
      call_options_(options.calls),
      state_(options.starts_in_thinking ? State::kReasoning : State::kBody) {}

void ReplyParser::feed(std::string_view text, std::vector<ReplyEvent>& out) {
  if (state_ == State::kBody) return body_.feed(text, out);
  buffer_ += text;
  while (step(out)) {
  }
  buffer_.erase(0, at_);
  at_ = 0;
}

bool ReplyParser::step(std::vector<ReplyEvent>& out) {
  switch (state_) {
    case State::kReasoning:
      return step_reasoning(out);
    case State::kHeld:
      return step_held(out);
    case State::kAfterThinking:
      return step_after_thinking();
    case State::kBody:
      body_.feed(rest(), out);
      at_ = buffer_.size();
      return false;
  }
  return false;
}

bool ReplyParser::step_reasoning(std::vector<ReplyEvent>& out) {
  put_reasoning(std::min(rest().find('<'), rest().size()), out);
  if (rest().empty()) return false;
  MarkupReader reader{rest()};
  const Match close = reader.literal(kThinkClose);
  Match open = Match::kNo;
  if (close == Match::kYes) {
    at_ += kThinkClose.size();
    state_ = State::kAfterThinking;
  } else if (opens_known_call(rest(), open)) {
    state_ = State::kHeld;
    searched_ = 0;
  } else if ((close == Match::kPartial || open == Match::kPartial) && !at_end_) {
    return false;
  } else {
    put_reasoning(1, out);
  }
  return true;
}

bool ReplyParser::opens_known_call(std::string_view text, Match& match) const {
  if (!body_.calls_enabled()) return false;
  const CallOpening opening = match_call_opening(text);
  match = opening.match;
  return match == Match::kYes && body_.tools().contains(opening.name);
}

// A call inside the thinking waits here: it is thought when a </think> follows, and meant when the
// answer ends with it.
bool ReplyParser::step_held(std::vector<ReplyEvent>& out) {
  const auto close = rest().find(kThinkClose, searched_);
  if (close == std::string_view::npos) {
    searched_ = rest().size() - std::min(rest().size(), kThinkClose.size() - 1);
    return false;
  }
  put_reasoning(close, out);
  at_ += kThinkClose.size();
  state_ = State::kAfterThinking;
  return true;
}

// The template writes "\n</think>\n\n" between thinking and content.
bool ReplyParser::step_after_thinking() {
  const auto first = rest().find_first_not_of('\n');
  at_ = first == std::string_view::npos ? buffer_.size() : at_ + first;
  if (first == std::string_view::npos) return false;
  state_ = State::kBody;
  return true;
}

void ReplyParser::put_reasoning(std::size_t size, std::vector<ReplyEvent>& out) {
  std::string_view text = rest().substr(0, size);
  at_ += text.size();
  if (!has_reasoning_) text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  const auto last = text.find_last_not_of('\n');
  if (last == std::string_view::npos) {
    n_newlines_ += text.size();
    return;
  }
  std::string piece(std::exchange(n_newlines_, text.size() - last - 1), '\n');
  out.push_back({Kind::kReasoning, piece.append(text.substr(0, last + 1))});
  has_reasoning_ = true;
}

// Where, in held thinking, an ending begins that consists of complete calls and white space only.
std::optional<std::size_t> ReplyParser::find_final_calls() const {
  const std::string_view used = rest().substr(0, rest().find_last_not_of(kSpace) + 1);
  if (!used.ends_with(kCallClose) && !used.ends_with(kFunctionClose)) return std::nullopt;
  int trials = 0;
  for (auto at = rest().find('<'); at != std::string_view::npos; at = rest().find('<', at + 1)) {
    Match match = Match::kNo;
    if (!opens_known_call(rest().substr(at), match)) continue;
    if (++trials > kMaxTrials) break;
    ToolCallParser trial(body_.tools(), call_options_);
    std::vector<ReplyEvent> events;
    trial.feed(rest().substr(at), events);
    trial.finish(events);
    const bool only_calls = std::all_of(events.begin(), events.end(), [](const ReplyEvent& event) {
      return event.kind != Kind::kContent || is_space(event.text);
    });
    if (only_calls && trial.n_complete_calls() > 0 && !trial.cut()) return at;
  }
  return std::nullopt;
}

ReplySummary ReplyParser::finish(std::vector<ReplyEvent>& out) {
  at_end_ = true;
  while (state_ != State::kBody && step(out)) {
  }
  ReplySummary summary;
  const bool thinking = state_ == State::kReasoning || state_ == State::kHeld;
  const auto calls = state_ == State::kHeld ? find_final_calls() : std::nullopt;
  summary.thinking_unfinished = thinking && !calls;
  if (thinking) put_reasoning(calls.value_or(rest().size()), out);
  body_.feed(rest(), out);
  body_.finish(out);
  summary.n_calls = body_.n_complete_calls();
  summary.cut = body_.cut();
  return summary;
}

Reply join_events(const std::vector<ReplyEvent>& events, ReplySummary summary) {
  Reply reply;
  reply.summary = std::move(summary);
  for (const ReplyEvent& event : events) {
    switch (event.kind) {
      case Kind::kReasoning:
        reply.reasoning += event.text;
        break;
      case Kind::kContent:
        reply.content += event.text;
        break;
      case Kind::kCallStart:
        reply.calls.push_back({event.text, "", false});
        break;
      case Kind::kCallArguments:
        reply.calls.back().arguments += event.text;
        break;
      case Kind::kCallEnd:
        reply.calls.back().complete = true;
        break;
    }
  }
  return reply;
}

Reply parse_reply(std::string_view text, const ToolSchemas& tools, const ReplyOptions& options) {
  ReplyParser parser(tools, options);
  std::vector<ReplyEvent> events;
  parser.feed(text, events);
  ReplySummary summary = parser.finish(events);
  return join_events(events, std::move(summary));
}

}  // namespace lily
