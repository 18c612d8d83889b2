// The self-test: one conversation of tests/golden/answers.json on the pocket checkpoint, whose
// greedy answer was computed by transformers.
#include "cli/self_test.h"

#include <fmt/format.h>

#include <array>

#include "cli/model_source.h"

namespace lily::cli {
namespace {

// "What is 21 - 15?", thinking off, and the answer "21 - 15 = 6" with the token that ends it.
constexpr std::array<TokenId, 22> kQuestion{4071, 304, 198,  422, 298,  220,  17,  16,
                                            826,  220, 16,   20,  30,   4072, 198, 4071,
                                            314,  198, 4094, 260, 4095, 260};
constexpr std::array<TokenId, 9> kAnswer{17, 16, 826, 220, 16, 20, 531, 220, 21};
constexpr TokenId kEnd = 4072;
constexpr int kContext = 256;

Result<GenerateResult> ask(const std::string& backend) {
  EngineFlags flags;
  flags.backend = backend;
  flags.no_pack = true;
  flags.context_tokens = kContext;
  LILY_TRY(const auto engine, open_engine(flags, {.quiet = true}));
  GenerateRequest request;
  request.prompt.assign(kQuestion.begin(), kQuestion.end());
  request.sampling.temperature = 0.0f;
  request.max_tokens = 2 * static_cast<int>(kAnswer.size());
  return engine->session().generate(request);
}

// What a pass of one token took; empty where the backend does not count.
std::string per_token(const GenerateResult& result) {
  if (result.decode_launches == 0) return {};
  const auto passes = static_cast<std::uint64_t>(result.decode_passes);
  return fmt::format("  ({} kernels in {} stages a token)", result.decode_launches / passes,
                     result.decode_barriers / passes + 1);
}

SelfTestRow test_backend(const std::string& backend) {
  const auto result = ask(backend);
  if (!result) return {backend, false, result.error().message};
  const bool same =
      std::equal(result->tokens.begin(), result->tokens.end(), kAnswer.begin(), kAnswer.end());
  if (same && result->end_token == kEnd) return {backend, true, result->text + per_token(*result)};
  return {backend, false, "found '" + result->text + "', expected '21 - 15 = 6'"};
}

}  // namespace

std::vector<SelfTestRow> run_self_test() {
  std::vector<SelfTestRow> rows;
  for (const std::string_view listed : kBackendNames) {
    const std::string backend(listed);
    if (open_backend(backend, {})) rows.push_back(test_backend(backend));
  }
  return rows;
}

}  // namespace lily::cli
