// The loop of a connection that waits for the engine.
#include "server/run_answer.h"

#include <algorithm>

namespace lily::server {

Result<RunEnd> run_answer(HttpExchange& exchange, Answer& answer, AnswerListener& listener,
                          const std::function<std::chrono::milliseconds()>& tick) {
  for (;;) {
    if (auto taken = answer.take(listener); !taken) {
      answer.cancel();
      return std::move(taken).error();
    }
    if (answer.is_done()) return RunEnd::kDone;
    const auto patience = tick();
    const bool left = exchange.client_is_gone() ||
                      exchange.wait(answer.wake(), patience) == Connection::Woken::kLeft;
    if (!left) continue;
    answer.cancel();
    return RunEnd::kClientLeft;
  }
}

void Collector::on_prompt_scored(int choice, const std::vector<ScoredRow>& rows) {
  choices_[static_cast<std::size_t>(choice)].prompt_rows = rows;
}

void Collector::on_token(int choice, TokenRecord record) {
  choices_[static_cast<std::size_t>(choice)].tokens.push_back(std::move(record));
}

void Collector::on_event(int choice, const ReplyEvent& event) {
  events_[static_cast<std::size_t>(choice)].push_back(event);
}

void Collector::on_end(int choice, ChoiceEnd end) {
  auto& collected = choices_[static_cast<std::size_t>(choice)];
  collected.reply = join_events(events_[static_cast<std::size_t>(choice)], end.summary);
  collected.end = std::move(end);
}

Result<RunEnd> collect_answer(HttpExchange& exchange, Answer& answer, Collector& collector) {
  return run_answer(exchange, answer, collector, [] { return std::chrono::milliseconds(60'000); });
}

void Usage::add(const ChoiceEnd& end) {
  prompt_tokens = end.result.prompt_tokens;
  cached_tokens = std::max(cached_tokens, end.result.cached_tokens);
  completion_tokens += static_cast<int>(end.result.tokens.size());
  reasoning_tokens += end.reasoning_tokens;
}

}  // namespace lily::server
