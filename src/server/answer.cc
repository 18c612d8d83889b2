// A queue between two threads, and a parser for each choice behind it.
#include "server/answer.h"

#include <mutex>
#include <utility>

namespace lily::server {

// One callback of the engine.
struct Answer::Item {
  enum class Kind { kPrefill, kPrompt, kText, kEnd };
  Kind kind;
  int choice;
  int done = 0, total = 0;
  std::string text = {};
  TokenId token = -1;
  TokenRecord record = {};
  std::vector<ScoredRow> rows = {};
  std::optional<Result<GenerateResult>> end = {};
};

// Outlives the answer where the engine still runs a cancelled request.
struct Answer::Feed {
  std::mutex mutex;
  std::vector<Item> items;
  Wake wake;

  void put(Item item) {
    {
      const std::lock_guard lock(mutex);
      items.push_back(std::move(item));
    }
    wake.set();
  }
};

struct Answer::Choice {
  int index;
  std::optional<ReplyParser> parser;  // None: all text is content.
  std::optional<ServeHandle> handle;
  bool open = true;
  bool in_thinking = false;
  bool stopped_by_call = false;
  int reasoning_tokens = 0;
};

Answer::Answer(AnswerSpec spec) : spec_(std::move(spec)), feed_(std::make_shared<Feed>()) {}

Answer::~Answer() {
  cancel();
}

Wake& Answer::wake() {
  return feed_->wake;
}

void Answer::cancel() {
  for (auto& choice : choices_) {
    if (choice->open && choice->handle) choice->handle->cancel();
  }
}

Result<std::unique_ptr<Answer>> Answer::start(Scheduler& scheduler, AnswerSpec spec) {
  std::unique_ptr<Answer> answer(new Answer(std::move(spec)));
  for (int i = 0; i < answer->spec_.n; ++i) {
    LILY_RETURN_IF_ERROR(answer->submit(scheduler, i));
  }
  return answer;
}

namespace {

TokenRecord record_of(const TokenEvent& event) {
  return {event.token,
          event.log_prob,
          {event.top_ids.begin(), event.top_ids.end()},
          {event.top_log_probs.begin(), event.top_log_probs.end()},
          false};
}

}  // namespace

Result<void> Answer::submit(Scheduler& scheduler, int index) {
  auto choice = std::make_unique<Choice>();
  choice->index = index;
  choice->in_thinking = spec_.prompt.in_thinking;
  if (!spec_.plain_text) {
    choice->parser.emplace(spec_.tools, ReplyOptions{.starts_in_thinking = spec_.prompt.in_thinking,
                                                     .calls = spec_.calls});
  }
  GenerateRequest request{.prompt = spec_.prompt.tokens, .sampling = spec_.sampling};
  request.sampling.seed += static_cast<std::uint64_t>(index);
  request.max_tokens = spec_.max_tokens;
  request.stop = spec_.stop;
  request.borders = spec_.prompt.borders;
  if (spec_.make_constraint) request.constraint = spec_.make_constraint();
  const auto feed = feed_;
  request.on_token = [feed, index, want = spec_.want_tokens](const TokenEvent& event) {
    feed->put({.kind = Item::Kind::kText,
               .choice = index,
               .text = std::string(event.text),
               .token = event.token,
               .record = want ? record_of(event) : TokenRecord{}});
  };
  if (spec_.want_progress) {
    request.on_prefill = [feed, index](int done, int total) {
      feed->put({.kind = Item::Kind::kPrefill, .choice = index, .done = done, .total = total});
    };
  }
  if (spec_.score_prompt) {
    request.prompt_top = spec_.sampling.n_top;
    request.on_prompt_scored = [feed, index](std::vector<ScoredRow> rows) {
      feed->put({.kind = Item::Kind::kPrompt, .choice = index, .rows = std::move(rows)});
    };
  }
  LILY_TRY(auto handle,
           scheduler.submit(std::move(request), [feed, index](Result<GenerateResult> end) {
             feed->put({.kind = Item::Kind::kEnd, .choice = index, .end = std::move(end)});
           }));
  choice->handle.emplace(std::move(handle));
  choices_.push_back(std::move(choice));
  ++n_open_;
  return {};
}

Result<void> Answer::take(AnswerListener& listener) {
  std::vector<Item> items;
  {
    const std::lock_guard lock(feed_->mutex);
    items.swap(feed_->items);
  }
  for (Item& item : items) LILY_RETURN_IF_ERROR(take_item(item, listener));
  return {};
}

Result<void> Answer::take_item(Item& item, AnswerListener& listener) {
  Choice& choice = *choices_[static_cast<std::size_t>(item.choice)];
  if (item.kind == Item::Kind::kPrefill) {
    listener.on_prefill(item.done, item.total);
  } else if (item.kind == Item::Kind::kPrompt) {
    listener.on_prompt_scored(item.choice, item.rows);
  } else if (item.kind == Item::Kind::kText) {
    take_text(choice, item, listener);
  } else {
    choice.open = false;
    --n_open_;
    LILY_TRY(GenerateResult result, std::move(*item.end));
    if (result.finish == FinishReason::kCancelled && !choice.stopped_by_call) {
      return Error{ErrorCode::kCancelled, "the answer was stopped"};
    }
    take_end(choice, std::move(result), listener);
  }
  return {};
}

void Answer::take_text(Choice& choice, Item& item, AnswerListener& listener) {
  if (choice.stopped_by_call) return;
  if (item.token >= 0) {
    if (choice.in_thinking) ++choice.reasoning_tokens;
    item.record.in_thinking = choice.in_thinking;
    if (spec_.want_tokens) listener.on_token(choice.index, std::move(item.record));
  }
  std::vector<ReplyEvent> events;
  if (choice.parser) {
    choice.parser->feed(item.text, events);
    choice.in_thinking = choice.in_thinking && choice.parser->in_thinking();
  } else if (!item.text.empty()) {
    events.push_back({ReplyEvent::Kind::kContent, std::move(item.text)});
  }
  tell(choice, events, listener);
  if (choice.parser && choice.parser->is_done()) {
    choice.stopped_by_call = true;
    choice.handle->cancel();
  }
}

void Answer::tell(const Choice& choice, std::vector<ReplyEvent>& events, AnswerListener& listener) {
  for (const ReplyEvent& event : events) listener.on_event(choice.index, event);
}

void Answer::take_end(Choice& choice, GenerateResult result, AnswerListener& listener) {
  ChoiceEnd end;
  if (choice.parser) {
    std::vector<ReplyEvent> events;
    end.summary = choice.parser->finish(events);
    tell(choice, events, listener);
  }
  const bool cut_off =
      result.finish == FinishReason::kLength || result.finish == FinishReason::kContextFull;
  const bool whole_calls = end.summary.n_calls > 0 && !end.summary.cut;
  end.finish = whole_calls ? "tool_calls" : cut_off ? "length" : "stop";
  end.reasoning_tokens = choice.reasoning_tokens;
  end.result = std::move(result);
  listener.on_end(choice.index, std::move(end));
}

}  // namespace lily::server
