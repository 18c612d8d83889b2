// One block is open at a time.
#include "server/block_listener.h"

namespace lily::server {

void BlockListener::begin(Kind kind, std::string name) {
  finish_block(true);
  block_ = Block{kind, n_blocks_++, std::move(name), {}};
  open(*block_);
}

void BlockListener::fill(Kind kind, const std::string& text) {
  if (text.empty()) return;
  if (!block_ || block_->kind != kind) begin(kind, {});
  block_->text += text;
  add(*block_, text);
}

void BlockListener::finish_block(bool whole) {
  if (block_) close(*block_, whole);
  block_.reset();
}

void BlockListener::on_event(int choice, const ReplyEvent& event) {
  using Event = ReplyEvent::Kind;
  std::optional<CustomCalls::Call> custom;
  if (custom_.take(choice, event, custom)) {
    if (!custom) return;
    begin(Kind::kCustomCall, custom->name);
    fill(Kind::kCustomCall, custom_input(custom->arguments));
    return finish_block(true);
  }
  switch (event.kind) {
    case Event::kReasoning:
      return fill(Kind::kThinking, event.text);
    case Event::kContent:
      return fill(Kind::kText, event.text);
    case Event::kCallStart:
      return begin(Kind::kCall, event.text);
    case Event::kCallArguments:
      return fill(Kind::kCall, event.text);
    case Event::kCallEnd:
      return finish_block(true);
  }
}

void BlockListener::on_end(int, ChoiceEnd last) {
  finish_block(last.finish != "length");
  end(std::move(last));
}

}  // namespace lily::server
