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
  return {400, "context_length_exceeded", "messages", message + "; at least one has to be left for it"};
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

void apply_tools(const Service& service, const ToolList& tools, const AnswerWish& wish,
                 AnswerSpec& out) {
  using Kind = ToolChoice::Kind;
  out.tools = ToolSchemas(tools.specs);
  out.calls.enabled = wish.tool_choice.kind != Kind::kNone && !tools.specs.empty();
  out.calls.parallel = wish.parallel_calls;
  out.calls.delivery = wish.stream ? CallDelivery::kStreamed : CallDelivery::kWhole;
  if (wish.tool_choice.kind != Kind::kAny && wish.tool_choice.kind != Kind::kNamed) return;
  out.make_constraint = call_constraints(service.engine, tools, wish.tool_choice, out.prompt.in_thinking);
}

}  // namespace

Result<PlannedAnswer> plan_chat(Service& service, const Conversation& conversation,
                                const ToolList& tools, const AnswerWish& wish) {
  PlannedAnswer out;
  LILY_TRY(out.spec.prompt, encode_chat(service.engine.tokenizer(), conversation));
  apply_wish(wish, out.spec);
  fit(service, wish, out);
  apply_tools(service, tools, wish, out.spec);
  if (wish.replay) out.spec.make_constraint = replay_constraints(service.engine, *wish.replay);
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
       {"cache", json_object({{"matched_tokens", json_int(result.reuse.matched)},
                              {"reused_tokens", json_int(result.reuse.reused)},
                              {"limit", json_text(std::string(reuse_limit_name(result.reuse.limit)))}})},
       {"seed", json_int(static_cast<std::int64_t>(notes.seed))},
       {"prefill_seconds", json_real(result.prefill_seconds)},
       {"decode_seconds", json_real(result.decode_seconds)}});
}

}  // namespace lily::server
