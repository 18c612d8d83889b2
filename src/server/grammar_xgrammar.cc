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

// Added tokens are markup, and control characters stand in JSON escaped: neither has a place in it.
// The library bans tokens without bytes.
bool has_a_place(const Tokenizer& tokenizer, TokenId id) {
  const auto bytes = tokenizer.token_bytes(id);
  return !tokenizer.is_added(id) && std::none_of(bytes.begin(), bytes.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20;
  });
}

xgrammar::TokenizerInfo describe_tokens(const Tokenizer& tokenizer,
                                        const std::vector<TokenId>& ends) {
  std::vector<std::string> bytes;
  for (TokenId id = 0; id < tokenizer.n_ids(); ++id) {
    bytes.emplace_back(has_a_place(tokenizer, id) ? tokenizer.token_bytes(id) : std::string_view());
  }
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
  Impl(const Tokenizer& of, std::vector<TokenId> ended_by)
      : tokenizer(of), ends(std::move(ended_by)) {}

  // The library's own preparation waits for the first schema.
  xgrammar::GrammarCompiler& compiler() {
    const std::lock_guard lock(mutex);
    if (!prepared) prepared.emplace(describe_tokens(tokenizer, ends), kThreads, true, kCacheBytes);
    return *prepared;
  }

  const Tokenizer& tokenizer;
  const std::vector<TokenId> ends;
  std::mutex mutex;
  std::optional<xgrammar::GrammarCompiler> prepared;
};

GrammarCompiler::GrammarCompiler(const Tokenizer& tokenizer, std::vector<TokenId> ends)
    : impl_(std::make_unique<Impl>(tokenizer, std::move(ends))) {}
GrammarCompiler::~GrammarCompiler() = default;

Result<Constraints> GrammarCompiler::compile(const Json& schema) {
  try {
    // Written as the model has learnt it: no line ends, ", " and ": ".
    const auto grammar = impl_->compiler().CompileJSONSchema(dump_json(schema), false, std::nullopt,
                                                             std::nullopt, false);
    const int n_ids = impl_->tokenizer.n_ids();
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
