// The state machine over call markup. Each step looks at the undecided text only, so that how the
// text was cut into pieces never matters.
#include "text/tool_call_parser.h"

#include <algorithm>
#include <utility>

namespace lily {
namespace {

constexpr std::string_view kWhite = " \t\r\n";
// Bounds the rereading of text that looks like a call and is none.
constexpr int kMaxUnwrapped = 8;
constexpr std::size_t kMaxFenceLine = 128;

using Kind = ReplyEvent::Kind;

// Length of the run of ` or ~ that begins a line (after at most three spaces), if it is a fence's.
std::size_t fence_run(std::string_view line, char& mark) {
  const auto begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos || begin > 3 || (line[begin] != '`' && line[begin] != '~'))
    return 0;
  mark = line[begin];
  const auto end = std::min(line.find_first_not_of(mark, begin), line.size());
  return end - begin >= 3 ? end - begin : 0;
}

}  // namespace

void FenceTracker::feed(std::string_view text) {
  for (const char c : text) {
    if (c == '\n') {
      end_line();
    } else if (line_.size() < kMaxFenceLine) {
      line_ += c;
    }
  }
}

void FenceTracker::end_line() {
  char mark = 0;
  const std::size_t run = fence_run(line_, mark);
  if (fence_size_ == 0) {
    fence_size_ = run;
    fence_char_ = mark;
  } else if (run >= fence_size_ && mark == fence_char_ &&
             line_.find_first_not_of(" \t\r", line_.rfind(mark) + 1) == std::string::npos) {
    fence_size_ = 0;
  }
  line_.clear();
}

bool FenceTracker::inside() const {
  char mark = 0;
  return fence_size_ > 0 || fence_run(line_, mark) > 0;
}

ToolCallParser::ToolCallParser(ToolSchemas tools, CallOptions options)
    : tools_(std::move(tools)), options_(options), unwrapped_left_(kMaxUnwrapped) {
  options_.enabled = options_.enabled && !tools_.empty();
}

void ToolCallParser::feed(std::string_view text, std::vector<ReplyEvent>& out) {
  start_batch(out);
  buffer_ += text;
  while (step()) {
  }
  buffer_.erase(0, at_);
  at_ = 0;
}

void ToolCallParser::finish(std::vector<ReplyEvent>& out) {
  start_batch(out);
  at_end_ = true;
  while (state_ != State::kDone) {
    while (step()) {
    }
    if (state_ == State::kText && rest().empty()) break;
    finish_call();
  }
  if (!call_since_content_) emit(Kind::kContent, space_);
  space_.clear();
}

void ToolCallParser::start_batch(std::vector<ReplyEvent>& out) {
  out_ = &out;
  n_before_ = out.size();
}

std::string_view ToolCallParser::take(std::size_t size) {
  const std::string_view taken = rest().substr(0, size);
  at_ += taken.size();
  if (state_ != State::kText && state_ != State::kDone) call_.raw += taken;
  return taken;
}

bool ToolCallParser::step() {
  switch (state_) {
    case State::kText:
      return step_text();
    case State::kParameters:
      return step_parameters();
    case State::kValue:
      return step_value();
    case State::kClosing:
      return step_closing();
    case State::kDone:
      take(rest().size());
      return false;
  }
  return false;
}

// ---- Text outside calls

bool ToolCallParser::step_text() {
  if (rest().empty()) return false;
  const auto mark = options_.enabled ? rest().find('<') : std::string_view::npos;
  if (mark == std::string_view::npos) {
    put_content(take(rest().size()));
    return false;
  }
  put_content(take(mark));
  CallOpening opening = match_call_opening(rest());
  if (opening.match == Match::kPartial && !at_end_) return false;
  if (opening.match == Match::kYes && may_open(opening)) {
    begin_call(std::move(opening));
  } else {
    put_content(take(1));
  }
  return true;
}

// With its wrapper any name makes a call, for the client to answer; without, only a tool of the
// request outside code.
bool ToolCallParser::may_open(const CallOpening& opening) const {
  if (opening.wrapped) return true;
  return unwrapped_left_ > 0 && tools_.contains(opening.name) && !fence_.inside();
}

void ToolCallParser::put_content(std::string_view text) {
  if (!options_.enabled) return emit(Kind::kContent, text);
  fence_.feed(text);
  if (!has_content_ &&
      call_since_content_) {  // Content does not begin with what separated it from a call.
    space_.clear();
    text.remove_prefix(std::min(text.find_first_not_of(kWhite), text.size()));
  }
  const auto last = text.find_last_not_of(kWhite);
  if (last == std::string_view::npos) {
    space_ += text;
    return;
  }
  emit(Kind::kContent, std::exchange(space_, std::string(text.substr(last + 1))));
  emit(Kind::kContent, text.substr(0, last + 1));
  has_content_ = true;
  call_since_content_ = false;
}

void ToolCallParser::emit(Kind kind, std::string_view text) {
  const bool of_call = kind != Kind::kContent;
  if (text.empty() && kind != Kind::kCallEnd) return;
  const bool waits = of_call && call_.held;
  std::vector<ReplyEvent>& out = waits ? pending_ : *out_;
  const bool joins = kind == Kind::kContent || kind == Kind::kCallArguments;
  if (joins && out.size() > (waits ? 0 : n_before_) && out.back().kind == kind) {
    out.back().text += text;
  } else {
    out.push_back({kind, std::string(text), of_call ? n_complete_ : 0});
  }
}

// ---- A call's frame

void ToolCallParser::begin_call(CallOpening opening) {
  state_ = State::kParameters;
  call_ = Call{};
  call_.name = std::move(opening.name);
  call_.wrapped = opening.wrapped;
  call_.held = !opening.wrapped || options_.delivery == CallDelivery::kWhole;
  call_.opening = opening.size;
  take(opening.size);
  if (!call_.held) commit_call();
  emit(Kind::kCallStart, call_.name);
}

// From here on it is a call whatever follows.
void ToolCallParser::commit_call() {
  if (!has_content_) space_.clear();
  call_since_content_ = true;
}

bool ToolCallParser::step_parameters() {
  MarkupReader reader{rest()};
  reader.gap();
  const std::size_t gap = reader.at;
  std::string key;
  Match match = reader.literal(kParameterOpen);
  if (match == Match::kYes) match = reader.name(key);
  if (match == Match::kYes) {
    take(reader.at);
    start_parameter(std::move(key));
    return true;
  }
  reader.at = gap;
  const Match close = reader.literal(kFunctionClose);
  if (close == Match::kYes) {
    take(reader.at);
    end_call();
    return true;
  }
  const Match outer = call_.wrapped ? reader.literal(kCallClose) : Match::kNo;
  if (outer == Match::kYes) {  // </function> was forgotten.
    end_call();
    return true;
  }
  const bool undecided =
      match == Match::kPartial || close == Match::kPartial || outer == Match::kPartial;
  return undecided ? false : take_junk(gap);
}

// Text where a parameter or the end should be. Without its wrapper this was no call; with it, the
// text moves behind the call.
bool ToolCallParser::take_junk(std::size_t gap) {
  if (!call_.wrapped) {
    return_to_text();
    return true;
  }
  const auto next = rest().find_first_of("< \t\r\n", gap + 1);
  call_.junk += take(std::min(next, rest().size()));
  return true;
}

// What was read since the opening is read again, as text.
void ToolCallParser::return_to_text() {
  --unwrapped_left_;
  pending_.clear();
  buffer_.replace(0, at_, call_.raw, call_.opening);
  at_ = 0;
  state_ = State::kText;
  put_content(std::string_view(call_.raw).substr(0, call_.opening));
}

void ToolCallParser::end_call() {
  emit(Kind::kCallArguments, call_.n_parameters == 0 ? "{}" : "}");
  emit(Kind::kCallEnd, "");
  if (call_.held) commit_call();
  std::move(pending_.begin(), pending_.end(), std::back_inserter(*out_));
  pending_.clear();
  ++n_complete_;
  state_ = State::kClosing;
}

bool ToolCallParser::step_closing() {
  MarkupReader reader{rest()};
  reader.gap();
  const Match close = reader.literal(kCallClose);
  if (close == Match::kPartial && !at_end_) return false;
  if (close == Match::kYes) take(reader.at);
  if (close == Match::kPartial) take(rest().size());  // A cut tag is still a tag.
  state_ = options_.parallel ? State::kText : State::kDone;
  put_content(std::exchange(call_.junk, {}));
  return true;
}

// The answer ended inside a call.
void ToolCallParser::finish_call() {
  take(rest().size());
  if (!call_.wrapped) return return_to_text();
  state_ = State::kText;
  cut_ = CutCall{n_complete_, call_.name, call_.raw};
  if (call_.held) {
    pending_.clear();
    put_content(call_.raw);
  } else {
    put_content(call_.junk);
  }
}

// ---- Parameters

void ToolCallParser::start_parameter(std::string key) {
  std::string text = call_.n_parameters++ == 0 ? "{\"" : ", \"";
  append_json_escaped(key, text);
  text += "\": ";
  call_.key = std::move(key);
  scan_ = ValueScan{};
  scan_.streamed = tools_.is_text(call_.name, call_.key);
  if (scan_.streamed) text += '"';
  emit(Kind::kCallArguments, text);
  state_ = State::kValue;
}

// One newline before a value belongs to the markup.
bool ToolCallParser::begin_value() {
  if (rest().empty()) return false;
  scan_.started = true;
  scan_.framed = rest().front() == '\n';
  if (scan_.framed) take(1);
  return true;
}

bool ToolCallParser::step_value() {
  if (!scan_.started && !begin_value()) return false;
  std::optional<std::size_t> end;
  const std::size_t safe = scan_value(end);
  if (end) {
    end_value(*end);
    return true;
  }
  if (at_end_ && scan_.held) {  // The quoted call never ended: it is plain text.
    scan_.at = *scan_.held;
    scan_.n_quoted = 0;
    scan_.held.reset();
    quoting_ = false;
    return true;
  }
  if (scan_.streamed) stream_value(safe);
  return false;
}

// Moves scan_.at forward to the value's end or to the first place that is undecided. Returns how
// much is surely value.
std::size_t ToolCallParser::scan_value(std::optional<std::size_t>& end) {
  const std::string_view text = rest();
  std::size_t safe = text.size();
  for (;;) {
    scan_.at = std::min(text.find('<', scan_.at), text.size());
    if (scan_.at == text.size()) break;
    const Match close = match_value_end(text.substr(scan_.at));
    if (close == Match::kYes && scan_.n_quoted == 0) {
      end = scan_.at;
      return scan_.at;
    }
    const Match quoted = scan_quoted_call(scan_.at);
    if ((close == Match::kPartial || quoted == Match::kPartial) && !at_end_) {
      safe = scan_.at;
      break;
    }
    ++scan_.at;
  }
  if (scan_.held) safe = std::min(safe, *scan_.held);
  return safe > 0 && text[safe - 1] == '\n' ? safe - 1 : safe;  // It may belong to the closing tag.
}

// </parameter>, then the next parameter or the end of the function. A value that began on a line of
// its own ends before a line of its own: markup inside it does not end it.
Match ToolCallParser::match_value_end(std::string_view text) const {
  MarkupReader reader{text};
  Match match = reader.literal(kParameterClose);
  if (match == Match::kYes && scan_.framed) match = reader.literal("\n");
  if (match != Match::kYes) return match;
  reader.gap();
  match = Match::kNo;
  for (const std::string_view next : {kParameterOpen, kFunctionClose, kCallClose}) {
    const Match one = reader.literal(next);
    if (one == Match::kYes) return one;
    if (one == Match::kPartial) match = one;
  }
  return match;
}

// Counts calls that the value quotes whole.
Match ToolCallParser::scan_quoted_call(std::size_t at) {
  if (!quoting_) return Match::kNo;
  MarkupReader reader{rest().substr(at)};
  if (scan_.n_quoted > 0) {
    const Match close = reader.literal(kCallClose);
    if (close == Match::kYes) --scan_.n_quoted;
    if (close != Match::kNo) return close;
  }
  Match open = reader.literal(kCallOpen);
  if (open != Match::kYes) return open;
  reader.gap();
  open = reader.literal(kFunctionOpen);
  if (open != Match::kYes) return open;
  ++scan_.n_quoted;
  if (!scan_.held) scan_.held = at;
  return open;
}

void ToolCallParser::stream_value(std::size_t size) {
  std::string escaped;
  append_json_escaped(take(size), escaped);
  emit(Kind::kCallArguments, escaped);
  scan_.at -= size;
  if (scan_.held) *scan_.held -= size;
}

void ToolCallParser::end_value(std::size_t size) {
  std::string_view value = take(size);
  take(kParameterClose.size());
  if (value.ends_with('\n')) value.remove_suffix(1);
  if (scan_.streamed) {
    std::string escaped;
    append_json_escaped(value, escaped);
    emit(Kind::kCallArguments, escaped + '"');
  } else {
    emit(Kind::kCallArguments, tools_.typed_value(call_.name, call_.key, value));
  }
  state_ = State::kParameters;
}

}  // namespace lily
