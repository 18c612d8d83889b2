// Encoding, room in the context, and the notes of a reply.
#include "server/plan_answer.h"

#include <algorithm>

#include "server/call_constraint.h"
#include "server/json_build.h"

namespace lily::server {
namespace {

ApiError over_context(std::size_t n_prompt, int context, const AnswerWish& wish) {
  const std::string most = std::to_string(context);
  std::string message = "prompt is too long: " + std::to_string(n_prompt) + " tokens > " + most +
                        " maximum. This model's maximum context length is " + most + " tokens";
  if (wish.max_tokens) {
    message += ", and " + std::to_string(*wish.max_tokens) + " tokens were asked for the answer";
  }
  return {400, "context_length_exceeded", "messages",
          message + "; at least one has to be left for it"};
}

// max_tokens beyond the room ends the answer where the context does, and the reply says so.
void fit(const Service& service, const AnswerWish& wish, PlannedAnswer& out) {
  const int context = service.engine.context_tokens();
  const std::size_t n_prompt = out.spec.prompt.tokens.size();
  if (n_prompt >= static_cast<std::size_t>(context)) {
    out.over_context = over_context(n_prompt, context, wish);
    return;
  }
  const std::int64_t room = context - static_cast<std::int64_t>(n_prompt);
  if (!wish.max_tokens) return;
  out.spec.max_tokens = static_cast<int>(std::min(*wish.max_tokens, room));
  if (*wish.max_tokens > room) {
    out.clamped.push_back("max_tokens: " + std::to_string(*wish.max_tokens) + ", room for " +
                          std::to_string(room));
  }
}

void apply_wish(const AnswerWish& wish, AnswerSpec& out) {
  out.sampling = wish.sampling;
  out.stop = wish.stop;
  out.n = wish.n;
  out.want_tokens = wish.want_tokens;
  out.want_progress = wish.want_progress;
}

void apply_tools(const ToolList& tools, const AnswerWish& wish, AnswerSpec& out) {
  using Kind = ToolChoice::Kind;
  out.tools = ToolSchemas(tools.specs);
  out.calls.enabled = wish.tool_choice.kind != Kind::kNone && !tools.specs.empty();
  out.calls.parallel = wish.parallel_calls;
  out.calls.delivery = wish.stream ? CallDelivery::kStreamed : CallDelivery::kWhole;
}

// What a test wants to be answered: the request says it, or the script, whose turns are those of
// requests with tools (agents ask for titles and the like in between).
std::optional<std::vector<TokenId>> replayed(Service& service, const ToolList& tools,
                                             const AnswerWish& wish, bool in_thinking) {
  const auto& script = service.settings.replay_script;
  if (wish.replay || script.empty() || tools.specs.empty()) return wish.replay;
  const std::size_t turn = service.n_replayed.fetch_add(1);
  if (turn >= script.size()) return std::nullopt;
  // Where an agent asked for thinking, the answer stands behind it.
  return service.engine.tokenizer().encode((in_thinking ? "</think>\n\n" : "") + script[turn]);
}

// What the script answers needs no reading: agents' prompts are long, and a busy machine would read
// them for minutes.
void keep_end(ChatPrompt& prompt) {
  constexpr std::ptrdiff_t kEnough = 256;
  prompt.borders.clear();
  prompt.tokens.erase(prompt.tokens.begin(),
                      prompt.tokens.end() - std::min(kEnough, std::ssize(prompt.tokens)));
}

// The one constraint that an answer has. With a schema and tools, the answer is one or the other.
Result<void> constrain(Service& service, const ToolList& tools, const AnswerWish& wish,
                       AnswerSpec& out) {
  using Kind = ToolChoice::Kind;
  const bool must_call =
      wish.tool_choice.kind == Kind::kAny || wish.tool_choice.kind == Kind::kNamed;
  if (must_call) {
    out.make_constraint = call_constraints(service.engine, tools, wish.tool_choice);
  } else if (wish.format) {
    auto compiled = service.grammars.compile(wish.format->schema);
    if (!compiled) return with_context(wish.format->place, std::move(compiled).error());
    out.make_constraint = *std::move(compiled);
    if (out.calls.enabled) {
      out.make_constraint = either(std::move(out.make_constraint),
                                   call_constraints(service.engine, tools, wish.tool_choice));
    }
  }
  if (out.make_constraint && out.prompt.in_thinking) {
    out.make_constraint = behind_thinking(service.engine, std::move(out.make_constraint));
  }
  return {};
}

}  // namespace

Result<PlannedAnswer> plan_chat(Service& service, const Conversation& conversation,
                                const ToolList& tools, const AnswerWish& wish) {
  PlannedAnswer out;
  LILY_TRY(out.spec.prompt, encode_chat(service.engine.tokenizer(), conversation));
  auto given = replayed(service, tools, wish, out.spec.prompt.in_thinking);
  if (given && !wish.replay) keep_end(out.spec.prompt);
  apply_wish(wish, out.spec);
  fit(service, wish, out);
  apply_tools(tools, wish, out.spec);
  if (given) {
    out.spec.make_constraint = replay_constraints(service.engine, *std::move(given));
  } else if (!out.over_context) {
    LILY_RETURN_IF_ERROR(constrain(service, tools, wish, out.spec));
  }
  return out;
}

Result<PlannedAnswer> plan_text(Service& service, std::vector<TokenId> prompt,
                                const AnswerWish& wish) {
  PlannedAnswer out;
  out.spec.prompt.tokens = std::move(prompt);
  out.spec.plain_text = true;
  apply_wish(wish, out.spec);
  fit(service, wish, out);
  if (wish.replay) out.spec.make_constraint = replay_constraints(service.engine, *wish.replay);
  return out;
}

Json notes_json(const ReplyNotes& notes, const GenerateResult& result) {
  return json_object(
      {{"ignored", json_texts(notes.ignored)},
       {"clamped", json_texts(notes.clamped)},
       {"cache",
        json_object({{"matched_tokens", json_int(result.reuse.matched)},
                     {"reused_tokens", json_int(result.reuse.reused)},
                     {"limit", json_text(std::string(reuse_limit_name(result.reuse.limit)))}})},
       {"seed", json_int(static_cast<std::int64_t>(notes.seed))},
       {"prefill_seconds", json_real(result.prefill_seconds)},
       {"decode_seconds", json_real(result.decode_seconds)}});
}

}  // namespace lily::server
