// The only file that sees xgrammar.
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>

#include "server/grammar.h"

namespace lily::server {
namespace {

constexpr std::int64_t kCacheBytes = std::int64_t{64} << 20;
constexpr int kThreads = 1;  // The passes need the others.

// Added tokens are markup, which has no place in JSON: the library bans tokens without bytes.
xgrammar::TokenizerInfo describe_tokens(const Engine& engine) {
  const Tokenizer& tokenizer = engine.tokenizer();
  std::vector<std::string> bytes;
  for (TokenId id = 0; id < tokenizer.n_ids(); ++id) {
    bytes.emplace_back(tokenizer.is_added(id) ? std::string_view() : tokenizer.token_bytes(id));
  }
  const auto& ends = engine.spec().end_tokens;
  return xgrammar::TokenizerInfo(bytes, xgrammar::VocabType::RAW, tokenizer.n_ids(),
                                 std::vector<std::int32_t>(ends.begin(), ends.end()));
}

class GrammarConstraint final : public TokenConstraint {
 public:
  GrammarConstraint(const xgrammar::CompiledGrammar& grammar, int n_ids)
      : matcher_(grammar),
        n_ids_(n_ids),
        words_(static_cast<std::size_t>(xgrammar::GetBitmaskSize(n_ids))) {}

  void allowed(std::span<std::uint32_t> bits) override {
    std::fill(bits.begin(), bits.end(), 0u);
    if (matcher_.IsTerminated()) return;
    std::int64_t shape = static_cast<std::int64_t>(words_.size());
    DLTensor tensor{words_.data(), {kDLCPU, 0}, 1, xgrammar::GetBitmaskDLType(),
                    &shape,        nullptr,     0};
    if (!matcher_.FillNextTokenBitmask(&tensor)) std::fill(words_.begin(), words_.end(), -1);
    for (std::size_t i = 0; i < words_.size() && i < bits.size(); ++i) {
      bits[i] = static_cast<std::uint32_t>(words_[i]);
    }
    // Bits behind the vocabulary name no token.
    if (n_ids_ % 32 != 0) bits[words_.size() - 1] &= (std::uint32_t{1} << (n_ids_ % 32)) - 1;
  }

  bool accept(TokenId token) override {
    return !matcher_.IsTerminated() && matcher_.AcceptToken(token);
  }

 private:
  xgrammar::GrammarMatcher matcher_;
  int n_ids_;
  std::vector<std::int32_t> words_;
};

}  // namespace

struct GrammarCompiler::Impl {
  explicit Impl(const Engine& of) : engine(of) {}

  // The library's own preparation waits for the first schema.
  xgrammar::GrammarCompiler& compiler() {
    const std::lock_guard lock(mutex);
    if (!prepared) prepared.emplace(describe_tokens(engine), kThreads, true, kCacheBytes);
    return *prepared;
  }

  const Engine& engine;
  std::mutex mutex;
  std::optional<xgrammar::GrammarCompiler> prepared;
};

GrammarCompiler::GrammarCompiler(const Engine& engine) : impl_(std::make_unique<Impl>(engine)) {}
GrammarCompiler::~GrammarCompiler() = default;

Result<Constraints> GrammarCompiler::compile(const Json& schema) {
  try {
    // Written as the model has learnt it: no line ends, ", " and ": ".
    const auto grammar = impl_->compiler().CompileJSONSchema(dump_json(schema), false, std::nullopt,
                                                             std::nullopt, false);
    const int n_ids = impl_->engine.tokenizer().n_ids();
    return Constraints(
        [grammar, n_ids] { return std::make_shared<GrammarConstraint>(grammar, n_ids); });
  } catch (const std::exception& failure) {
    std::string why = failure.what();
    // The library names its own source line first.
    if (const auto at = why.rfind("] "); at != std::string::npos) why.erase(0, at + 2);
    return Error{ErrorCode::kInvalidArgument, "schema: " + why.substr(0, 300)};
  }
}

}  // namespace lily::server
