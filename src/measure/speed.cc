// The same tokens in every run, as requests to the engine's session.
#include "measure/speed.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"

namespace lily {
namespace {

// Ids that end an answer are as good as any in a prompt.
std::vector<TokenId> random_tokens(int n, int vocab_used) {
  std::vector<TokenId> out;
  for (int i = 0; i < n; ++i) {
    out.push_back(static_cast<TokenId>(uniform_draw(1, static_cast<std::uint64_t>(i)) *
                                       static_cast<float>(vocab_used)));
  }
  return out;
}

}  // namespace

Result<double> SpeedMeter::prefill(int n_tokens) {
  LILY_TRY(const auto result, generate(n_tokens, 1));
  return prefill_rate(result);
}

Result<DecodeSpeed> SpeedMeter::decode(int depth, int n_tokens) {
  LILY_TRY(const auto result, generate(depth, n_tokens + 1));
  const double passes = std::max(1, result.decode_passes);
  return DecodeSpeed{.tokens_per_second = decode_rate(result),
                     .barriers = static_cast<double>(result.decode_barriers) / passes,
                     .launches = static_cast<double>(result.decode_launches) / passes};
}

Result<GenerateResult> SpeedMeter::generate(int prompt_tokens, int tokens) {
  GenerateRequest request;
  request.prompt = random_tokens(prompt_tokens, engine_.tokenizer().n_ids());
  request.sampling.temperature = 0.0f;
  for (const TokenId id : engine_.spec().end_tokens)
    request.sampling.logit_bias.emplace_back(id, -100.0f);
  request.max_tokens = tokens;
  request.cancel = cancel_;
  engine_.session().clear();
  LILY_TRY(auto result, engine_.session().generate(request));
  if (result.finish == FinishReason::kCancelled)
    return Error{ErrorCode::kCancelled, "interrupted"};
  if (static_cast<int>(result.tokens.size()) == tokens) return result;
  return Error{ErrorCode::kTooLarge,
               fmt::format("{} + {} tokens: the context holds {}", prompt_tokens, tokens,
                           engine_.context_tokens())};
}

}  // namespace lily
