// One answer, or n of them side by side, from the engine's callbacks to events that a door can
// write: what the engine's thread says is queued, and the thread of the connection takes it apart.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/chat.h"
#include "engine/scheduler.h"
#include "server/constraints.h"
#include "server/wake.h"
#include "text/reply_parser.h"

namespace lily::server {

struct AnswerSpec {
  ChatPrompt prompt;
  SamplingParams sampling;
  int max_tokens = 0;  // 0: until the context is full.
  std::vector<std::string> stop = {};
  int n = 1;                   // Choices; each has a seed of its own, one more than the one before.
  bool want_tokens = false;    // on_token is called.
  bool want_progress = false;  // on_prefill is called.
  bool score_prompt =
      false;                // on_prompt_scored is called, with as many alternatives as tokens have.
  bool plain_text = false;  // No thinking and no calls are looked for: all text is content.
  ToolSchemas tools = {};
  CallOptions calls = {};
  // One for each choice; none: anything may be written.
  Constraints make_constraint = {};
};

struct TokenRecord {
  TokenId token;
  float log_prob;
  std::vector<std::int32_t> top_ids;
  std::vector<float> top_log_probs;
  bool in_thinking;
};

struct ChoiceEnd {
  std::string finish;  // "stop", "length", "tool_calls"
  GenerateResult result;
  ReplySummary summary;
  int reasoning_tokens = 0;
};

class AnswerListener {
 public:
  virtual ~AnswerListener() = default;
  virtual void on_prefill(int done, int total) = 0;
  // Before the choice's first token: row i is of the prompt's token i + 1.
  virtual void on_prompt_scored(int, const std::vector<ScoredRow>&) {}
  virtual void on_token(int choice, TokenRecord record) = 0;
  virtual void on_event(int choice, const ReplyEvent& event) = 0;
  virtual void on_end(int choice, ChoiceEnd end) = 0;
};

class Answer {
 public:
  // kBusy: the queue is full. Other errors are the request's fault.
  static Result<std::unique_ptr<Answer>> start(Scheduler& scheduler, AnswerSpec spec);
  ~Answer();  // What still runs is cancelled.
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  Wake& wake();  // Set when there is something to take.
  // Tells the listener what happened since the last call. An error ends the answer; kCancelled:
  // cancel() did, or the server is stopping.
  Result<void> take(AnswerListener& listener);
  bool is_done() const { return n_open_ == 0; }
  void cancel();

 private:
  struct Feed;
  struct Item;
  struct Choice;
  explicit Answer(AnswerSpec spec);
  Result<void> submit(Scheduler& scheduler, int choice);
  Result<void> take_item(Item& item, AnswerListener& listener);
  void take_text(Choice& choice, Item& item, AnswerListener& listener);
  void take_end(Choice& choice, GenerateResult result, AnswerListener& listener);
  void tell(const Choice& choice, std::vector<ReplyEvent>& events, AnswerListener& listener);

  AnswerSpec spec_;
  std::shared_ptr<Feed> feed_;
  std::vector<std::unique_ptr<Choice>> choices_;
  int n_open_ = 0;
};

}  // namespace lily::server
