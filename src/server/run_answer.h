// Following an answer on the thread of its connection, until it is done or the client has left.
#pragma once

#include <functional>
#include <vector>

#include "server/answer.h"
#include "server/http.h"

namespace lily::server {

enum class RunEnd { kDone, kClientLeft };

// `tick` is called after each look and says how long to wait for the next at most. A client that
// leaves, and an error, cancel the answer.
Result<RunEnd> run_answer(HttpExchange& exchange, Answer& answer, AnswerListener& listener,
                          const std::function<std::chrono::milliseconds()>& tick);

// What a reply that is no stream is made of.
struct CollectedChoice {
  Reply reply;
  std::vector<ScoredRow> prompt_rows;
  std::vector<TokenRecord> tokens;
  ChoiceEnd end;
};

class Collector final : public AnswerListener {
 public:
  explicit Collector(int n)
      : events_(static_cast<std::size_t>(n)), choices_(static_cast<std::size_t>(n)) {}
  void on_prefill(int, int) override {}
  void on_prompt_scored(int choice, const std::vector<ScoredRow>& rows) override;
  void on_token(int choice, TokenRecord record) override;
  void on_event(int choice, const ReplyEvent& event) override;
  void on_end(int choice, ChoiceEnd end) override;
  const std::vector<CollectedChoice>& choices() const { return choices_; }

 private:
  std::vector<std::vector<ReplyEvent>> events_;
  std::vector<CollectedChoice> choices_;
};

// The whole answer without a stream.
Result<RunEnd> collect_answer(HttpExchange& exchange, Answer& answer, Collector& collector);

// Sums over choices: the prompt counts once.
struct Usage {
  int prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0, reasoning_tokens = 0;
  void add(const ChoiceEnd& end);
};

}  // namespace lily::server
