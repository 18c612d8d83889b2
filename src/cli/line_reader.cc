// Line editing with libedit (the only file that sees it), history in the cache folder, and plain
// lines from a pipe.
#include "cli/line_reader.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <system_error>

#include "base/env.h"
#include "base/file.h"
#include "cli/terminal.h"

namespace lily::cli {
namespace {

constexpr int kHistoryEntries = 1000;

char* current_prompt(EditLine* line) {
  void* data = nullptr;
  el_get(line, EL_CLIENTDATA, &data);
  return static_cast<char*>(data);
}

// Where past lines are kept; empty when there is no place for them.
std::string history_file() {
  const Path folder = env::cache_folder();
  if (folder.empty()) return {};
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  return failed ? std::string() : (folder / "chat_history").string();
}

// Characters beyond ASCII can be edited only where the locale says UTF-8.
void choose_locale() {
  if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1)
    std::setlocale(LC_CTYPE, "C.UTF-8");
}

InputLine read_piped() {
  InputLine line;
  for (char c = 0; line.text.size() < kMaxLineBytes;) {
    const int got = std::getchar();
    if (got == EOF) break;
    line.event = LineEvent::kLine;
    c = static_cast<char>(got);
    if (c == '\n') break;
    line.text += c;
  }
  if (!line.text.empty() && line.text.back() == '\r') line.text.pop_back();
  return line;
}

}  // namespace

struct LineReader::Editor {
  EditLine* line;
  History* history;
  std::string file;

  Editor() {
    choose_locale();
    line = el_init("lily", stdin, stdout, stderr);
    history = history_init();
    HistEvent event;
    lily_history(&event, H_SETSIZE, kHistoryEntries);
    lily_history(&event, H_SETUNIQUE, 1);
    file = history_file();
    if (!file.empty()) lily_history(&event, H_LOAD, file.c_str());
    el_set(line, EL_EDITOR, "emacs");
    el_set(line, EL_HIST, ::history, history);
    el_set(line, EL_PROMPT, current_prompt);
    el_set(line, EL_SIGNAL, 1);
  }

  ~Editor() {
    HistEvent event;
    if (!file.empty()) lily_history(&event, H_SAVE, file.c_str());
    history_end(history);
    el_end(line);
  }

  template <typename... Arguments>
  void lily_history(HistEvent* event, int what, Arguments... arguments) const {
    ::history(history, event, what, arguments...);
  }

  InputLine read(const char* prompt) const {
    // The client data is only read, by current_prompt.
    el_set(line, EL_CLIENTDATA, const_cast<char*>(prompt));
    // Before the prompt is shown: what is typed at once after it must not meet the terminal's own
    // line discipline, which turns Ctrl-D into a zero byte of the line.
    el_set(line, EL_PREP_TERM, 1);
    int n = 0;
    const char* text = el_gets(line, &n);
    if (text == nullptr || n <= 0) return {};
    std::string out(text, static_cast<std::size_t>(n));
    if (out.back() == '\n') out.pop_back();
    HistEvent event;
    if (!out.empty()) lily_history(&event, H_ENTER, out.c_str());
    return {LineEvent::kLine, std::move(out)};
  }
};

LineReader::LineReader(const std::atomic<bool>* interrupted) : interrupted_(interrupted) {
  if (stdin_is_terminal() && stdout_is_terminal()) editor_ = std::make_unique<Editor>();
}

LineReader::~LineReader() = default;

InputLine LineReader::read(const char* prompt) {
  if (!editor_) return read_piped();
  InputLine line = editor_->read(prompt);
  if (line.event == LineEvent::kEnd && interrupted_->load()) line.event = LineEvent::kInterrupted;
  return line;
}

namespace {

constexpr std::string_view kFence = R"(""")";

// The rest of a message whose first line opened with three quotation marks.
InputLine read_fenced(LineReader& reader, std::string text, const char* further) {
  for (;;) {
    if (text.size() >= kFence.size() && text.ends_with(kFence)) {
      text.resize(text.size() - kFence.size());
      return {LineEvent::kLine, std::move(text)};
    }
    const InputLine line = reader.read(further);
    if (line.event == LineEvent::kInterrupted) return line;
    if (line.event == LineEvent::kEnd || text.size() > kMaxLineBytes)
      return {LineEvent::kLine, std::move(text)};
    text += (text.empty() ? "" : "\n") + line.text;
  }
}

}  // namespace

InputLine read_message_lines(LineReader& reader, const char* prompt, const char* further) {
  InputLine message = reader.read(prompt);
  if (message.event != LineEvent::kLine) return message;
  if (message.text.starts_with(kFence))
    return read_fenced(reader, message.text.substr(kFence.size()), further);
  while (message.text.ends_with('\\') && message.text.size() < kMaxLineBytes) {
    message.text.back() = '\n';
    const InputLine line = reader.read(further);
    if (line.event == LineEvent::kInterrupted) return line;
    message.text += line.text;
    if (line.event == LineEvent::kEnd) break;
  }
  return message;
}

}  // namespace lily::cli
