// An answer as a row of blocks (thinking, text, calls), each opened, filled and closed: what the
// doors that number their blocks write.
#pragma once

#include <optional>
#include <string>

#include "server/answer.h"
#include "server/custom_call.h"

namespace lily::server {

class BlockListener : public AnswerListener {
 public:
  enum class Kind { kThinking, kText, kCall, kCustomCall };
  struct Block {
    Kind kind;
    int index = 0;          // 0, 1, ... in the order of the answer.
    std::string name = {};  // Of a call.
    std::string text = {};  // So far: thinking, text, arguments, or a custom call's input.
  };

  explicit BlockListener(const ToolList& tools) : custom_(tools) {}

  void on_token(int, TokenRecord) override {}
  void on_event(int choice, const ReplyEvent& event) final;
  void on_end(int choice, ChoiceEnd end) final;

 protected:
  virtual void open(const Block& block) = 0;
  virtual void add(const Block& block, const std::string& text) = 0;
  // `whole`: false where the answer was cut off inside it.
  virtual void close(const Block& block, bool whole) = 0;
  virtual void end(ChoiceEnd end) = 0;

 private:
  void begin(Kind kind, std::string name);
  void fill(Kind kind, const std::string& text);
  void finish_block(bool whole);

  CustomCalls custom_;
  std::optional<Block> block_;
  int n_blocks_ = 0;
};

}  // namespace lily::server
