// Lines that a person types: edited with history on a terminal, read as they come from a pipe.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

namespace lily::cli {

enum class LineEvent { kLine, kInterrupted, kEnd };

struct InputLine {
  LineEvent event = LineEvent::kEnd;
  std::string text;  // Without the newline.
};

class LineReader {
 public:
  // `interrupted` is what Ctrl-C sets (InterruptScope::flag).
  explicit LineReader(const std::atomic<bool>* interrupted);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // One line; the prompt is shown on a terminal only. Longer than kMaxLineBytes: cut there.
  InputLine read(const char* prompt);

 private:
  struct Editor;
  std::unique_ptr<Editor> editor_;  // Null without a terminal.
  const std::atomic<bool>* interrupted_;
};

inline constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;

// A message of one or more lines: a line that ends in a backslash goes on, and so does everything
// between lines of """.
InputLine read_message_lines(LineReader& reader, const char* prompt, const char* further);

}  // namespace lily::cli
