// Takes an answer apart as it is generated: reasoning, content and tool calls. docs/CHAT_FORMAT.md
// states the rules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tool_call_parser.h"

namespace lily {

struct ReplyOptions {
  bool starts_in_thinking =
      true;  // The prompt ended in a think block: RenderedPrompt::in_thinking.
  CallOptions calls;
};

// How an answer ended; the caller adds whether the model stopped or was stopped.
struct ReplySummary {
  std::size_t n_calls = 0;           // Complete calls.
  bool thinking_unfinished = false;  // No </think>, and no call was recovered from the thinking.
  std::optional<CutCall> cut;        // With CallDelivery::kWhole its text is part of the content.
};

// Fed the decoded text in pieces of any size (valid UTF-8 when joined; events end at character
// boundaries when the pieces do). The events, joined, do not depend on how the text was cut; apart
// from the markup and the white space around it, no byte is lost.
class ReplyParser {
 public:
  ReplyParser(ToolSchemas tools, ReplyOptions options);

  // Appends the events that `text` decides to `out`; events already there are left alone.
  void feed(std::string_view text, std::vector<ReplyEvent>& out);
  // The answer ends here; nothing may be fed afterwards.
  ReplySummary finish(std::vector<ReplyEvent>& out);

  // No further text can matter (parallel calls are off and one is complete): generation may stop.
  bool is_done() const { return body_.is_done(); }
  // What was fed so far belongs to the thinking.
  bool in_thinking() const { return state_ == State::kReasoning || state_ == State::kHeld; }

 private:
  // kReasoning -> kHeld at a call's opening; both -> kAfterThinking at </think>, -> kBody at the
  // first other character.
  enum class State { kReasoning, kHeld, kAfterThinking, kBody };

  std::string_view rest() const { return std::string_view(buffer_).substr(at_); }
  bool step(std::vector<ReplyEvent>& out);
  bool step_reasoning(std::vector<ReplyEvent>& out);
  bool step_held(std::vector<ReplyEvent>& out);
  bool step_after_thinking();
  void put_reasoning(std::size_t size, std::vector<ReplyEvent>& out);
  bool opens_known_call(std::string_view text, Match& match) const;
  std::optional<std::size_t> find_final_calls() const;

  ToolCallParser body_;
  CallOptions call_options_;
  State state_;
  bool at_end_ = false;
  std::string buffer_;
  std::size_t at_ = 0;          // Bytes of buffer_ already dealt with.
  std::size_t searched_ = 0;    // Of a held text: no </think> begins before.
  std::size_t n_newlines_ = 0;  // At the end of the reasoning so far: dropped when nothing follows.
  bool has_reasoning_ = false;
};

// A whole answer at once; what the joined events of a stream amount to.
struct Reply {
  struct Call {
    std::string name;
    std::string arguments;  // JSON text of an object; of an incomplete call, its beginning.
    bool complete = false;
  };
  std::string reasoning;
  std::string content;
  std::vector<Call> calls;
  ReplySummary summary;
};
Reply join_events(const std::vector<ReplyEvent>& events, ReplySummary summary);
Reply parse_reply(std::string_view text, const ToolSchemas& tools, const ReplyOptions& options);

}  // namespace lily
