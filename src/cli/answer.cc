// Producing an answer and describing how it went.
#include "cli/answer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdlib>

#include "base/random.h"

namespace lily::cli {
namespace {

// A new seed for each run, short enough to be typed again.
std::uint64_t new_seed() {
  const auto now =
      static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  const auto drawn =
      philox4x32({static_cast<std::uint32_t>(now), static_cast<std::uint32_t>(now >> 32), 0, 0},
                 {static_cast<std::uint32_t>(::getpid()), 0});
  return drawn[0];
}

SamplingParams preset_named(const std::string& name) {
  if (name == "thinking") return preset(SamplingPreset::kThinking);
  return preset(name == "precise" ? SamplingPreset::kThinkingPrecise : SamplingPreset::kInstruct);
}

Error bad_bias(const std::string& text) {
  return {ErrorCode::kInvalidArgument,
          "--logit-bias: '" + text + "', expected ID:VALUE such as 42:-100"};
}

Result<std::pair<TokenId, float>> parse_bias(const std::string& text) {
  const auto colon = text.find(':');
  if (colon == std::string::npos || colon + 1 == text.size()) return bad_bias(text);
  TokenId id = 0;
  const auto [id_end, error] = std::from_chars(text.data(), text.data() + colon, id);
  if (error != std::errc() || id_end != text.data() + colon) return bad_bias(text);
  char* end = nullptr;
  const float value = std::strtof(text.c_str() + colon + 1, &end);
  if (*end != '\0') return bad_bias(text);
  return std::pair(id, value);
}

template <typename T>
void set_if(T& field, const std::optional<T>& wish) {
  if (wish) field = *wish;
}

}  // namespace

Result<SettledSampling> settle_sampling(const SamplingFlags& flags,
                                        const GenerationDefaults& defaults) {
  SettledSampling out;
  SamplingParams& params = out.params;
  params = flags.preset.empty() ? with_defaults({}, defaults) : preset_named(flags.preset);
  set_if(params.temperature, flags.temperature);
  set_if(params.top_p, flags.top_p);
  set_if(params.min_p, flags.min_p);
  set_if(params.top_k, flags.top_k);
  set_if(params.repetition_penalty, flags.repetition_penalty);
  set_if(params.presence_penalty, flags.presence_penalty);
  set_if(params.frequency_penalty, flags.frequency_penalty);
  if (flags.greedy) params.temperature = 0.0f;
  params.n_top = flags.n_top;
  for (const auto& text : flags.logit_bias) {
    LILY_TRY(const auto bias, parse_bias(text));
    params.logit_bias.push_back(bias);
  }
  out.drew_seed = !flags.seed && params.temperature > 0.0f;
  params.seed = flags.seed ? *flags.seed : out.drew_seed ? new_seed() : 0;
  return out;
}

void tell_seed(const SettledSampling& sampling, bool quiet) {
  if (sampling.drew_seed && !quiet) print_note(fmt::format("seed {}\n", sampling.params.seed));
}

namespace {

// Takes the engine's events: collects the parts and shows them.
class Listener {
 public:
  Listener(bool in_thinking, const AnswerWishes& wishes, InterruptScope& interrupt)
      : parser_({}, {.starts_in_thinking = in_thinking, .calls = {}}),
        wishes_(wishes),
        interrupt_(interrupt),
        line_(!wishes.quiet) {}

  void on_prefill(int done, int total) {
    line_.show("reading the prompt", static_cast<double>(done) / total,
               fmt::format("{} tokens", total));
  }

  void on_token(const TokenEvent& event, bool record) {
    line_.clear();
    if (record && event.token >= 0) {
      answer_.records.push_back({event.token,
                                 event.log_prob,
                                 {event.top_ids.begin(), event.top_ids.end()},
                                 {event.top_log_probs.begin(), event.top_log_probs.end()}});
    }
    parser_.feed(event.text, events_);
    show();
  }

  Answer finish(GenerateResult result) {
    const auto summary = parser_.finish(events_);
    show();
    if (reasoning_shown_) print_dim("\n");
    answer_.reply = join_events(events_, summary);
    answer_.result = std::move(result);
    return std::move(answer_);
  }

 private:
  // What has been decided since the last call.
  void show() {
    for (; n_shown_ < events_.size(); ++n_shown_) {
      const ReplyEvent& event = events_[n_shown_];
      if (event.kind == ReplyEvent::Kind::kReasoning) {
        show_reasoning(event.text);
      } else {
        show_content(event.text);
      }
    }
  }

  void show_reasoning(const std::string& text) {
    if (!wishes_.show_reasoning || text.empty()) return;
    print_dim(text);
    reasoning_shown_ = true;
  }

  void show_content(const std::string& text) {
    if (!wishes_.show || text.empty()) return;
    if (std::exchange(reasoning_shown_, false)) print_dim("\n");
    if (!print_out(text)) interrupt_.request();
  }

  ReplyParser parser_;
  std::vector<ReplyEvent> events_;
  std::size_t n_shown_ = 0;
  AnswerWishes wishes_;
  InterruptScope& interrupt_;
  ProgressLine line_;
  Answer answer_;
  bool reasoning_shown_ = false;  // And its last line is still open.
};

}  // namespace

Result<Answer> answer(Engine& engine, const ChatPrompt& prompt, GenerateRequest request,
                      const AnswerWishes& wishes, InterruptScope& interrupt) {
  Listener listener(prompt.in_thinking, wishes, interrupt);
  const bool record = request.sampling.n_top > 0;
  request.prompt = prompt.tokens;
  request.cancel = interrupt.flag();
  request.on_prefill = [&](int done, int total) { listener.on_prefill(done, total); };
  request.on_token = [&](const TokenEvent& event) { listener.on_token(event, record); };
  LILY_TRY(auto result, engine.session().generate(request));
  return listener.finish(std::move(result));
}

std::string speed_line(const GenerateResult& result) {
  return fmt::format("{} tokens, {:.1f} tokens/s; prompt {} tokens ({} cached), {:.1f} tokens/s",
                     result.tokens.size(), decode_rate(result), result.prompt_tokens,
                     result.cached_tokens, prefill_rate(result));
}

}  // namespace lily::cli
