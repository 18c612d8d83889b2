// lily chat: a conversation in the terminal, or line by line from a pipe. Answers go to standard
// output, all else to standard error. What the model is told, and what is saved, is the
// conversation as the chat template takes it.
#include <fmt/format.h>

#include <array>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/conversation_file.h"
#include "cli/line_reader.h"
#include "cli/model_source.h"

namespace lily::cli {
namespace {

// States kept for reuse: where the first message began, where the last answer began (a later turn drops its
// thinking) and where it ended.
constexpr int kCheckpoints = 3;

constexpr std::string_view kHelp =
    "/help                this list\n"
    "/quit                end; so does Ctrl-D\n"
    "/clear               forget the conversation, keep the system message\n"
    "/retry               answer the last question again\n"
    "/system TEXT         set the system message; without TEXT remove it\n"
    "/think on|off        think before answering, or do not\n"
    "/save FILE           write the conversation\n"
    "/load FILE           go on with a saved conversation\n"
    "/stats               tokens and speed so far\n"
    "A line that ends in \\ goes on; \"\"\" opens and closes a message of many lines.\n"
    "A message that starts with a slash: put a space before it.\n";

struct Totals {
  int answers = 0;
  std::size_t tokens = 0;
  long prompt_tokens = 0, cached_tokens = 0;
  double decode_seconds = 0, prefill_seconds = 0;

  void add(const GenerateResult& result) {
    ++answers;
    tokens += result.tokens.size();
    prompt_tokens += result.prompt_tokens;
    cached_tokens += result.cached_tokens;
    decode_seconds += result.decode_seconds;
    prefill_seconds += result.prefill_seconds;
  }
};

class Chat {
 public:
  Chat(const ChatFlags& flags, Engine& engine, const SettledSampling& sampling,
       InterruptScope& interrupt)
      : flags_(flags),
        engine_(engine),
        sampling_(sampling),
        interrupt_(interrupt),
        save_to_(flags.save) {
    apply_flags();
  }

  // What the command line says goes before what a saved conversation says.
  void apply_flags() {
    if (flags_.answer.no_thinking) conversation_.options.enable_thinking = false;
    if (!flags_.answer.system.empty()) set_system(flags_.answer.system);
  }

  Result<void> resume(const Path& path);
  int loop();  // The exit status.

 private:
  enum class Next { kGoOn, kQuit };
  struct CommandRow {
    std::string_view name;
    Result<Next> (Chat::*run)(const std::string& argument);
  };
  static const std::array<CommandRow, 9> kCommands;

  Result<Next> command(const std::string& line);
  Result<Next> help(const std::string&);
  Result<Next> quit(const std::string&) { return Next::kQuit; }
  Result<Next> clear(const std::string&);
  Result<Next> save(const std::string& path);
  Result<Next> load(const std::string& path);
  Result<Next> system(const std::string& text);
  Result<Next> think(const std::string& wish);
  Result<Next> retry(const std::string&);
  Result<Next> stats(const std::string&);

  Result<void> ask();
  Result<Answer> produce();
  void keep(Answer answer);
  void set_system(const std::string& text);
  bool has_system() const {
    return !conversation_.messages.empty() && conversation_.messages.front().role == Role::kSystem;
  }

  const ChatFlags& flags_;
  Engine& engine_;
  SettledSampling sampling_;
  InterruptScope& interrupt_;
  Path save_to_;
  Conversation conversation_;
  Totals totals_;
};

const std::array<Chat::CommandRow, 9> Chat::kCommands{{{"/help", &Chat::help},
                                                       {"/quit", &Chat::quit},
                                                       {"/clear", &Chat::clear},
                                                       {"/save", &Chat::save},
                                                       {"/load", &Chat::load},
                                                       {"/system", &Chat::system},
                                                       {"/think", &Chat::think},
                                                       {"/retry", &Chat::retry},
                                                       {"/stats", &Chat::stats}}};

Error missing_file(std::string_view command) {
  return {ErrorCode::kInvalidArgument, std::string(command) + ": the name of a file is missing"};
}

void Chat::set_system(const std::string& text) {
  auto& messages = conversation_.messages;
  if (has_system()) messages.erase(messages.begin());
  if (!text.empty()) messages.insert(messages.begin(), text_message(Role::kSystem, text));
}

Result<Chat::Next> Chat::help(const std::string&) {
  print_note(kHelp);
  return Next::kGoOn;
}

Result<Chat::Next> Chat::clear(const std::string&) {
  auto& messages = conversation_.messages;
  messages.erase(messages.begin() + (has_system() ? 1 : 0), messages.end());
  engine_.session().clear();
  print_note("the conversation is empty\n");
  return Next::kGoOn;
}

Result<Chat::Next> Chat::save(const std::string& path) {
  if (path.empty()) return missing_file("/save FILE");
  LILY_RETURN_IF_ERROR(save_conversation(path, conversation_));
  print_note("saved " + path + "\n");
  return Next::kGoOn;
}

Result<Chat::Next> Chat::load(const std::string& path) {
  if (path.empty()) return missing_file("/load FILE");
  LILY_RETURN_IF_ERROR(resume(path));
  return Next::kGoOn;
}

Result<Chat::Next> Chat::system(const std::string& text) {
  set_system(text);
  print_note(text.empty() ? "no system message\n" : "system message set\n");
  return Next::kGoOn;
}

Result<Chat::Next> Chat::think(const std::string& wish) {
  if (wish != "on" && wish != "off")
    return Error{ErrorCode::kInvalidArgument, "/think: '" + wish + "', expected on or off"};
  conversation_.options.enable_thinking = wish == "on";
  print_note("thinking is " + wish + "\n");
  return Next::kGoOn;
}

Result<Chat::Next> Chat::retry(const std::string&) {
  auto& messages = conversation_.messages;
  if (messages.empty() || messages.back().role != Role::kAssistant) {
    return Error{ErrorCode::kInvalidArgument, "/retry: there is no answer yet"};
  }
  const auto before = messages;
  messages.pop_back();
  ++sampling_.params.seed;
  if (auto asked = ask(); !asked) {
    messages = before;
    return std::move(asked).error();
  }
  return Next::kGoOn;
}

Result<Chat::Next> Chat::stats(const std::string&) {
  const double rate = totals_.decode_seconds > 0
                          ? static_cast<double>(totals_.tokens) / totals_.decode_seconds
                          : 0.0;
  print_note(fmt::format(
      "{} answers, {} tokens, {:.1f} tokens/s; prompts {} tokens, {} of them cached; context {}\n",
      totals_.answers, totals_.tokens, rate, totals_.prompt_tokens, totals_.cached_tokens,
      engine_.context_tokens()));
  return Next::kGoOn;
}

Result<Chat::Next> Chat::command(const std::string& line) {
  const auto space = line.find(' ');
  const auto name = line.substr(0, space);
  const auto argument_at = space == std::string::npos ? space : line.find_first_not_of(' ', space);
  const auto argument = argument_at == std::string::npos ? std::string() : line.substr(argument_at);
  for (const auto& row : kCommands) {
    if (row.name == name) return (this->*row.run)(argument);
  }
  return Error{ErrorCode::kInvalidArgument, name + ": no such command; /help lists them"};
}

Result<void> Chat::resume(const Path& path) {
  LILY_TRY(conversation_, load_conversation(path));
  print_note(fmt::format("{}: {} messages\n", path.string(), conversation_.messages.size()));
  return {};
}

Result<Answer> Chat::produce() {
  LILY_TRY(const auto prompt, encode_chat(engine_.tokenizer(), conversation_));
  GenerateRequest request;
  request.sampling = sampling_.params;
  request.max_tokens = flags_.answer.max_tokens;
  request.stop = flags_.answer.stop;
  request.borders = prompt.borders;
  interrupt_.reset();
  return answer(engine_, prompt, std::move(request),
                {.show_reasoning = !flags_.answer.quiet, .quiet = flags_.answer.quiet}, interrupt_);
}

// An answer that was cut off stays in the conversation as far as it came.
void Chat::keep(Answer answer) {
  totals_.add(answer.result);
  if (!answer.reply.content.empty() && answer.reply.content.back() != '\n') print_out("\n");
  if (answer.result.finish == FinishReason::kCancelled) print_note("stopped\n");
  if (answer.result.finish == FinishReason::kLength) print_note("cut off (--max-tokens)\n");
  if (answer.result.finish == FinishReason::kContextFull)
    print_note("cut off: the context is full; /clear makes room\n");
  if (!flags_.answer.quiet) print_dim(speed_line(answer.result) + "\n");
  Message message = text_message(Role::kAssistant, std::move(answer.reply.content));
  message.reasoning = std::move(answer.reply.reasoning);
  conversation_.messages.push_back(std::move(message));
}

// Answers the conversation's last message. A question that cannot be answered is taken back.
Result<void> Chat::ask() {
  auto answer = produce();
  if (!answer) {
    conversation_.messages.pop_back();
    return std::move(answer).error();
  }
  keep(*std::move(answer));
  return save_to_.empty() ? Result<void>() : save_conversation(save_to_, conversation_);
}

int Chat::loop() {
  LineReader reader(interrupt_.flag());
  int status = 0;
  for (;;) {
    interrupt_.reset();
    const InputLine line = read_message_lines(reader, "> ", ". ");
    if (line.event == LineEvent::kEnd || output_closed()) break;
    if (line.event == LineEvent::kInterrupted) print_note("\n/quit or Ctrl-D ends\n");
    if (line.text.find_first_not_of(" \t\r\n") == std::string::npos) continue;
    Result<Next> next = Next::kGoOn;
    if (line.text.front() == '/') {
      next = command(line.text);
    } else {
      conversation_.messages.push_back(text_message(Role::kUser, line.text));
      if (const auto asked = ask(); !asked) next = asked.error();
    }
    if (!next) {
      print_note("lily chat: " + next.error().message + "\n");
      // A person reads the message and goes on; a script's exit status is all it has.
      if (!stdin_is_terminal() && status == 0) status = exit_status(next.error().code);
      continue;
    }
    if (*next == Next::kQuit) break;
  }
  return status;
}

}  // namespace

Result<int> execute(const ChatFlags& flags) {
  for (const auto& stop : flags.answer.stop) {
    if (stop.empty())
      return Error{ErrorCode::kInvalidArgument, "--stop: an empty text would stop at once"};
  }
  LILY_TRY(const auto engine, open_engine(flags.answer.engine, {.n_checkpoints = kCheckpoints,
                                                                .quiet = flags.answer.quiet}));
  LILY_TRY(const auto sampling,
           settle_sampling(flags.answer.sampling, engine->generation_defaults()));
  LILY_RETURN_IF_ERROR(check_sampling(sampling.params, engine->tokenizer().n_ids()));
  InterruptScope interrupt;
  ChatFlags settled = flags;
  if (settled.save.empty()) settled.save = flags.resume;
  Chat chat(settled, *engine, sampling, interrupt);
  if (!flags.resume.empty()) LILY_RETURN_IF_ERROR(chat.resume(flags.resume));
  chat.apply_flags();
  tell_seed(sampling, flags.answer.quiet);
  if (stdin_is_terminal() && !flags.answer.quiet) print_note("/help lists what can be typed\n");
  return chat.loop();
}

}  // namespace lily::cli
