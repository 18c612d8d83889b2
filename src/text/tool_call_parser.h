// Finds tool calls in the part of an answer that follows the thinking, piece by piece; everything
// else is content. The grammar and the rules for what breaks it are in docs/CHAT_FORMAT.md.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_markup.h"
#include "text/tool_schema.h"

namespace lily {

struct ReplyEvent {
  enum class Kind { kReasoning, kContent, kCallStart, kCallArguments, kCallEnd };
  Kind kind;
  std::string text;          // The piece of text; of kCallStart the function's name.
  std::size_t call_idx = 0;  // Of the kCall kinds: 0, 1, ... in the order of the answer.
};

// When a call's events are given out. kStreamed: as soon as they are known; a cut call has no
// kCallEnd. kWhole: all at once when the call is complete; a cut call is content, as it was
// written.
enum class CallDelivery { kStreamed, kWhole };

struct CallOptions {
  bool enabled = true;   // False (tool_choice "none"), or without tools: markup is content.
  bool parallel = true;  // False: the answer ends with its first call, what follows is dropped.
  CallDelivery delivery = CallDelivery::kStreamed;
};

// A call whose end is missing when the answer ends.
struct CutCall {
  std::size_t call_idx;
  std::string name;
  std::string text;  // All of it, as the model wrote it.
};

// Whether a place in Markdown text is inside a fenced code block.
class FenceTracker {
 public:
  void feed(std::string_view text);
  bool inside() const;

 private:
  void end_line();
  std::string line_;            // The current line's beginning.
  std::size_t fence_size_ = 0;  // Length of the open fence; 0 outside.
  char fence_char_ = 0;
};

class ToolCallParser {
 public:
  ToolCallParser(ToolSchemas tools, CallOptions options);

  // Appends the events that `text` decides to `out`. What could be markup is held back until it is
  // decided.
  void feed(std::string_view text, std::vector<ReplyEvent>& out);
  // The answer ends here.
  void finish(std::vector<ReplyEvent>& out);

  bool calls_enabled() const { return options_.enabled; }
  std::size_t n_complete_calls() const { return n_complete_; }
  // Nothing that follows can matter: the answer may be stopped.
  bool is_done() const { return state_ == State::kDone; }
  const std::optional<CutCall>& cut() const { return cut_; }
  const ToolSchemas& tools() const { return tools_; }

 private:
  // kText -> kParameters at an opening; kParameters -> kValue at <parameter=KEY>, -> kClosing at
  // </function>; kValue -> kParameters at the value's end; kClosing -> kText with or without
  // </tool_call>.
  enum class State { kText, kParameters, kValue, kClosing, kDone };

  struct Call {
    std::string name;
    bool wrapped = false;
    bool held = false;        // Its events wait in pending_.
    std::size_t opening = 0;  // Bytes of its opening in raw.
    std::string raw;          // All its text so far.
    std::string key;          // The current parameter's.
    std::size_t n_parameters = 0;
    std::string junk;  // Text between its parameters that is no markup: content, after the call.
  };

  // Where the search for a value's end stands; positions in rest().
  struct ValueScan {
    std::size_t at = 0;               // Everything before is known to hold no end.
    std::size_t n_quoted = 0;         // Calls quoted inside the value and not yet closed.
    std::optional<std::size_t> held;  // Where the first quoted call begins.
    bool started = false;             // The leading newline is dealt with.
    bool framed = false;              // There was one.
    bool streamed = false;            // A text: given out before its end is known.
  };

  std::string_view rest() const { return std::string_view(buffer_).substr(at_); }
  std::string_view take(std::size_t size);
  void start_batch(std::vector<ReplyEvent>& out);

  bool step();  // Does the next decided thing; false when more text is needed.
  bool step_text();
  bool step_parameters();
  bool step_value();
  bool step_closing();

  bool may_open(const CallOpening& opening) const;
  void begin_call(CallOpening opening);
  void commit_call();
  void end_call();
  bool take_junk(std::size_t gap);
  void return_to_text();

  bool begin_value();
  void start_parameter(std::string key);
  void stream_value(std::size_t size);
  void end_value(std::size_t size);
  std::size_t scan_value(std::optional<std::size_t>& end);
  Match match_value_end(std::string_view text) const;
  Match scan_quoted_call(std::size_t at);

  void put_content(std::string_view text);
  void emit(ReplyEvent::Kind kind, std::string_view text);
  void finish_call();

  ToolSchemas tools_;
  CallOptions options_;
  State state_ = State::kText;
  bool at_end_ = false;
  std::string buffer_;
  std::size_t at_ = 0;  // Bytes of buffer_ already dealt with.
  std::vector<ReplyEvent>* out_ = nullptr;
  std::size_t n_before_ = 0;  // Events in *out_ when this batch began: they are not touched.
  std::vector<ReplyEvent> pending_;

  Call call_;
  ValueScan scan_;
  bool quoting_ = true;  // Calls quoted in values are recognised: until one turns out not to end.
  std::size_t n_complete_ = 0;
  int unwrapped_left_;  // Attempts to read a call without its wrapper.
  std::optional<CutCall> cut_;

  FenceTracker fence_;
  std::string space_;  // White space after content: dropped when only calls follow.
  bool has_content_ = false;
  bool call_since_content_ = false;
};

}  // namespace lily
