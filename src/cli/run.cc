// lily run: one answer. Standard output carries the answer, or one JSON object; everything else
// goes to standard error.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/conversation_file.h"
#include "cli/model_source.h"

namespace lily::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMaxPromptBytes = std::size_t{64} << 20;

Result<std::string> prompt_text(const RunFlags& flags) {
  if (!flags.prompt_file.empty()) return read_file(flags.prompt_file, kMaxPromptBytes);
  if (flags.prompt && *flags.prompt != "-") return *flags.prompt;
  if (flags.prompt || !stdin_is_terminal()) return read_stdin(kMaxPromptBytes);
  return Error{ErrorCode::kInvalidArgument,
               "no question: give -p TEXT, --prompt-file FILE, or text on standard input"};
}

Result<void> check_words(const RunFlags& flags, const std::string& prompt) {
  const auto refuse = [](const char* message) -> Result<void> {
    return Error{ErrorCode::kInvalidArgument, message};
  };
  if (prompt.find_first_not_of(" \t\r\n") == std::string::npos && !(flags.raw && !prompt.empty())) {
    return refuse("the prompt is empty");
  }
  if (flags.raw && !flags.answer.system.empty()) return refuse("--system: --raw has no messages");
  if (flags.answer.sampling.n_top > 0 && !flags.json) return refuse("--top-logprobs: needs --json");
  for (const auto& stop : flags.answer.stop) {
    if (stop.empty()) return refuse("--stop: an empty text would stop at once");
  }
  return {};
}

Result<ChatPrompt> encode(const Tokenizer& tokenizer, const RunFlags& flags,
                          const std::string& prompt) {
  if (flags.raw) return ChatPrompt{.tokens = tokenizer.encode(prompt)};
  Conversation conversation;
  if (!flags.answer.system.empty())
    conversation.messages.push_back(text_message(Role::kSystem, flags.answer.system));
  conversation.messages.push_back(text_message(Role::kUser, prompt));
  conversation.options.enable_thinking = !flags.answer.no_thinking;
  return encode_chat(tokenizer, conversation);
}

ordered_json logprobs_json(const Tokenizer& tokenizer, const std::vector<TokenRecord>& records) {
  ordered_json list = ordered_json::array();
  for (const auto& record : records) {
    ordered_json top = ordered_json::array();
    for (std::size_t i = 0; i < record.top_ids.size(); ++i) {
      top.push_back({{"id", record.top_ids[i]},
                     {"text", tokenizer.token_text(record.top_ids[i])},
                     {"log_prob", record.top_log_probs[i]}});
    }
    list.push_back({{"id", record.token},
                    {"text", tokenizer.token_text(record.token)},
                    {"log_prob", record.log_prob},
                    {"top", std::move(top)}});
  }
  return list;
}

// The finish reasons of the OpenAI-compatible API, with the stop string or end token that did it.
void add_finish(ordered_json& out, const GenerateResult& result) {
  out["finish_reason"] = finish_name(result.finish);
  out["stop_string"] = result.finish == FinishReason::kStopString ? ordered_json(result.stop_string)
                                                                  : ordered_json();
  out["end_token"] = result.end_token >= 0 ? ordered_json(result.end_token) : ordered_json();
}

std::string as_json(const Engine& engine, const Answer& answer, const SettledSampling& sampling) {
  const GenerateResult& result = answer.result;
  ordered_json out = {{"text", answer.reply.content}, {"reasoning", answer.reply.reasoning}};
  add_finish(out, result);
  out["tokens"] = result.tokens;
  if (sampling.params.n_top > 0)
    out["logprobs"] = logprobs_json(engine.tokenizer(), answer.records);
  out["usage"] = {{"prompt_tokens", result.prompt_tokens},
                  {"cached_tokens", result.cached_tokens},
                  {"completion_tokens", result.tokens.size()}};
  out["timings"] = {{"prefill_seconds", result.prefill_seconds},
                    {"prefill_tokens_per_second", prefill_rate(result)},
                    {"decode_seconds", result.decode_seconds},
                    {"decode_tokens_per_second", decode_rate(result)}};
  out["seed"] =
      sampling.params.temperature > 0.0f ? ordered_json(sampling.params.seed) : ordered_json();
  out["backend"] = engine.backend().name;
  out["context_tokens"] = engine.context_tokens();
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

// What a reader of the answer alone would not see.
void tell_ending(const RunFlags& flags, const Answer& answer, const ChatPrompt& prompt) {
  const auto& result = answer.result;
  if (result.finish == FinishReason::kLength)
    print_note(fmt::format("cut off after {} tokens (--max-tokens)\n", result.tokens.size()));
  if (result.finish == FinishReason::kContextFull)
    print_note("cut off: the context is full (--context)\n");
  if (result.finish == FinishReason::kCancelled && !output_closed()) print_note("interrupted\n");
  if (prompt.in_thinking && answer.reply.content.empty())
    print_note("the answer ended before its thinking did\n");
  if (!flags.answer.quiet) print_note(speed_line(result) + "\n");
}

void print_answer(const RunFlags& flags, const Engine& engine, const Answer& answer,
                  const SettledSampling& sampling) {
  if (flags.json) {
    print_out(as_json(engine, answer, sampling));
  } else if (!answer.reply.content.empty() && answer.reply.content.back() != '\n') {
    print_out("\n");
  }
}

}  // namespace

Result<int> execute(const RunFlags& flags) {
  LILY_TRY(const auto text, prompt_text(flags));
  LILY_RETURN_IF_ERROR(check_words(flags, text));
  LILY_TRY(const auto engine, open_engine(flags.answer.engine, {.quiet = flags.answer.quiet}));
  LILY_TRY(const auto sampling,
           settle_sampling(flags.answer.sampling, engine->generation_defaults()));
  LILY_TRY(const auto prompt, encode(engine->tokenizer(), flags, text));
  GenerateRequest request;
  request.sampling = sampling.params;
  request.max_tokens = flags.answer.max_tokens;
  request.stop = flags.answer.stop;
  InterruptScope interrupt;
  LILY_TRY(const auto reply, answer(*engine, prompt, std::move(request),
                                    {.show = !flags.json,
                                     .show_reasoning = !flags.answer.quiet && !flags.json,
                                     .quiet = flags.answer.quiet},
                                    interrupt));
  print_answer(flags, *engine, reply, sampling);
  tell_ending(flags, reply, prompt);
  tell_seed(sampling, flags.answer.quiet);
  return reply.result.finish == FinishReason::kCancelled ? kInterruptedStatus : 0;
}

}  // namespace lily::cli
