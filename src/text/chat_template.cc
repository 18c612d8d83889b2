// Two passes, as the template itself does it: flatten and trim every content and find the last
// question; then write turns.
#include "text/chat_template.h"

#include "text/chat_parse.h"
#include "text/chat_text.h"

namespace lily {
namespace {

constexpr std::string_view kTurnEnd = "<|im_end|>\n";
constexpr std::string_view kToolsHead =
    "<|im_start|>system\n# Tools\n\nYou have access to the following functions:\n\n<tools>";
constexpr std::string_view kToolsTail =
    "\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO "
    "suffix:\n\n"
    "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</"
    "parameter>\n"
    "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can "
    "span\nmultiple lines\n"
    "</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n"
    "- Function calls MUST follow the specified format: an inner <function=...></function> block "
    "must be nested within "
    "<tool_call></tool_call> XML tags\n"
    "- Required parameters MUST be specified\n"
    "- You may provide optional reasoning for your function call in natural language BEFORE the "
    "function call, but NOT "
    "after\n"
    "- If there is no function call available, answer the question like normal with your current "
    "knowledge and do not "
    "tell the user about function calls\n"
    "</IMPORTANT>";
static_assert(kToolsHead.size() == 80 && kToolsTail.size() == 826);

Error refuse(std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message)};
}

// A message's content as one text, trimmed; `whole` also holds what was trimmed away.
struct FlatText {
  struct Mark {
    std::size_t begin, end;
  };
  std::string whole;
  std::vector<Mark> marks;  // Where the template itself wrote a placeholder, in order.

  std::string_view text() const { return strip(whole); }
};

class Writer {
 public:
  explicit Writer(const Conversation& conversation) : conversation_(conversation) {}

  Result<RenderedPrompt> run() {
    LILY_RETURN_IF_ERROR(check_order());
    LILY_RETURN_IF_ERROR(flatten_all());
    LILY_RETURN_IF_ERROR(find_question());
    out_.opens_with_result = is_role(0, Role::kTool);
    write_preamble();
    for (std::size_t i = 0; i < messages().size(); ++i) write_turn(i);
    if (conversation_.options.add_generation_prompt) write_generation_prompt();
    return std::move(out_);
  }

 private:
  const std::vector<Message>& messages() const { return conversation_.messages; }
  bool is_role(std::size_t i, Role role) const {
    return i < messages().size() && messages()[i].role == role;
  }

  Result<void> check_order() const;
  Result<void> flatten_all();
  Result<FlatText> flatten(const Message& message);
  void flatten_medium(ContentPart::Kind kind, FlatText& flat);
  Result<void> find_question();

  void own(std::string_view text) { out_.add(text, true); }
  void theirs(std::string_view text) { out_.add(text, false); }
  void write_window(const FlatText& flat, std::string_view window);
  void write_preamble();
  void write_turn(std::size_t i);
  void write_assistant(std::size_t i);
  void write_call(const ToolCall& call);
  void write_tool_result(std::size_t i);
  void write_generation_prompt();

  const Conversation& conversation_;
  std::vector<FlatText> flat_;  // One per message.
  std::size_t question_ = 0;    // Index of the last user message that is not a wrapped tool result.
  RenderedPrompt out_;
};

Result<void> Writer::check_order() const {
  for (std::size_t i = 0; i < messages().size(); ++i) {
    if (i == 0 || !is_role(i, Role::kSystem)) continue;
    return refuse(item_place("messages", i) + ": a system message must be the first");
  }
  return {};
}

Result<void> Writer::flatten_all() {
  for (std::size_t i = 0; i < messages().size(); ++i) {
    auto flat = flatten(messages()[i]);
    if (!flat) return within(item_place("messages", i), std::move(flat).error());
    flat_.push_back(*std::move(flat));
  }
  return {};
}

Result<FlatText> Writer::flatten(const Message& message) {
  FlatText flat;
  for (std::size_t i = 0; i < message.content.size(); ++i) {
    const ContentPart& part = message.content[i];
    if (part.kind == ContentPart::Kind::kText) {
      flat.whole += part.text;
    } else if (message.role == Role::kSystem) {
      return refuse(item_place(".content", i) +
                    ": a system message cannot hold pictures or videos");
    } else {
      flatten_medium(part.kind, flat);
    }
  }
  return flat;
}

void Writer::flatten_medium(ContentPart::Kind kind, FlatText& flat) {
  const bool image = kind == ContentPart::Kind::kImage;
  const std::size_t number = ++(image ? out_.n_images : out_.n_videos);
  const std::size_t begin = flat.whole.size();
  if (conversation_.options.add_vision_id) {
    flat.whole += (image ? "Picture " : "Video ") + std::to_string(number) + ": ";
  }
  flat.whole += "<|vision_start|>";
  flat.whole += image ? "<|image_pad|>" : "<|video_pad|>";
  flat.whole += "<|vision_end|>";
  flat.marks.push_back({begin, flat.whole.size()});
}

Result<void> Writer::find_question() {
  for (std::size_t i = messages().size(); i-- > 0;) {
    const std::string_view text = flat_[i].text();
    const bool wrapped = text.starts_with("<tool_response>") && text.ends_with("</tool_response>");
    if (!is_role(i, Role::kUser) || wrapped) continue;
    question_ = i;
    return {};
  }
  return refuse("messages: there is no user message to answer");
}

// A part of a flattened text: the user's, but for the placeholders inside it.
void Writer::write_window(const FlatText& flat, std::string_view window) {
  auto at = static_cast<std::size_t>(window.data() - flat.whole.data());
  const std::size_t end = at + window.size();
  const std::string_view whole = flat.whole;
  for (const auto& mark : flat.marks) {
    if (mark.begin < at || mark.end > end) continue;
    theirs(whole.substr(at, mark.begin - at));
    own(whole.substr(mark.begin, mark.end - mark.begin));
    at = mark.end;
  }
  theirs(whole.substr(at, end - at));
}

void Writer::write_preamble() {
  const bool has_system = is_role(0, Role::kSystem);
  if (conversation_.tools.empty()) {
    if (!has_system) return;
    own("<|im_start|>system\n");
    write_window(flat_[0], flat_[0].text());
    return own(kTurnEnd);
  }
  own(kToolsHead);
  for (const ToolSpec& tool : conversation_.tools) {
    own("\n");
    theirs(dump_json(tool.json));
  }
  own(kToolsTail);
  if (has_system && !flat_[0].text().empty()) {
    own("\n\n");
    write_window(flat_[0], flat_[0].text());
  }
  own(kTurnEnd);
}

void Writer::write_turn(std::size_t i) {
  switch (messages()[i].role) {
    case Role::kSystem:
      return;  // Part of the preamble.
    case Role::kUser:
      own("<|im_start|>user\n");
      write_window(flat_[i], flat_[i].text());
      return own(kTurnEnd);
    case Role::kAssistant:
      return write_assistant(i);
    case Role::kTool:
      return write_tool_result(i);
  }
}

struct AssistantText {
  std::string_view thought, answer;
};

// Without a reasoning field, content up to the first </think> is the thought (from its last <think>
// on), and what follows the last </think> the answer; anything between is lost, as in the template.
AssistantText split_assistant(std::string_view text, const std::optional<std::string>& reasoning) {
  constexpr std::string_view kOpen = "<think>", kClose = "</think>";
  if (reasoning.has_value()) return {*reasoning, text};
  const auto first = text.find(kClose);
  if (first == std::string_view::npos) return {text.substr(0, 0), text};
  std::string_view thought = text.substr(0, first);
  if (const auto open = thought.rfind(kOpen); open != std::string_view::npos)
    thought.remove_prefix(open + kOpen.size());
  return {thought, strip_leading_newlines(text.substr(text.rfind(kClose) + kClose.size()))};
}

void Writer::write_assistant(std::size_t i) {
  const Message& message = messages()[i];
  const AssistantText text = split_assistant(flat_[i].text(), message.reasoning);
  own("<|im_start|>assistant\n");
  if (i > question_ || conversation_.options.preserve_thinking) {
    own("<think>\n");
    const std::string_view thought = strip(text.thought);
    message.reasoning ? theirs(thought) : write_window(flat_[i], thought);
    own("\n</think>\n\n");
  }
  write_window(flat_[i], text.answer);
  for (std::size_t c = 0; c < message.tool_calls.size(); ++c) {
    own(c > 0 ? "\n" : strip(text.answer).empty() ? "" : "\n\n");
    write_call(message.tool_calls[c]);
  }
  own(kTurnEnd);
}

void Writer::write_call(const ToolCall& call) {
  own("<tool_call>\n<function=");
  theirs(call.name);
  own(">\n");
  for (std::size_t i = 0; i < call.arguments.keys.size(); ++i) {
    const Json& value = call.arguments.items[i];
    own("<parameter=");
    theirs(call.arguments.keys[i]);
    own(">\n");
    theirs(value.is(JsonKind::kString) ? value.text : dump_json(value));
    own("\n</parameter>\n");
  }
  own("</function>\n</tool_call>");
}

// Neighbouring results share one user turn.
void Writer::write_tool_result(std::size_t i) {
  if (i > 0 && !is_role(i - 1, Role::kTool)) own("<|im_start|>user");
  own("\n<tool_response>\n");
  write_window(flat_[i], flat_[i].text());
  own("\n</tool_response>");
  if (!is_role(i + 1, Role::kTool)) own(kTurnEnd);
}

void Writer::write_generation_prompt() {
  own("<|im_start|>assistant\n<think>\n");
  if (!conversation_.options.enable_thinking) own("\n</think>\n\n");
  out_.in_thinking = conversation_.options.enable_thinking;
}

}  // namespace

void RenderedPrompt::add(std::string_view text, bool trusted) {
  if (text.empty()) return;
  text_ += text;
  if (runs_.empty() || runs_.back().trusted != trusted) runs_.push_back({0, trusted});
  runs_.back().end = text_.size();
}

std::vector<TextPiece> RenderedPrompt::pieces() const {
  std::vector<TextPiece> out;
  std::size_t begin = 0;
  for (const Run& run : runs_) {
    out.push_back({std::string_view(text_).substr(begin, run.end - begin), run.trusted});
    begin = run.end;
  }
  return out;
}

Result<RenderedPrompt> render_chat(const Conversation& conversation) {
  return Writer(conversation).run();
}

}  // namespace lily
