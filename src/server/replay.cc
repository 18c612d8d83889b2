// One bit of the mask at a time.
#include "server/replay.h"

#include <algorithm>

#include "text/chat_parse.h"

namespace lily::server {
namespace {

class ReplayConstraint final : public TokenConstraint {
 public:
  explicit ReplayConstraint(std::shared_ptr<const std::vector<TokenId>> tokens)
      : tokens_(std::move(tokens)) {}

  void allowed(std::span<std::uint32_t> bits) override {
    std::fill(bits.begin(), bits.end(), 0u);
    set_bit(bits, next());
  }
  bool accept(TokenId token) override {
    const bool expected = token == next();
    if (at_ + 1 < tokens_->size()) ++at_;
    return expected;
  }

 private:
  TokenId next() const { return (*tokens_)[at_]; }
  std::shared_ptr<const std::vector<TokenId>> tokens_;  // The end token is the last.
  std::size_t at_ = 0;
};

}  // namespace

Result<std::optional<std::vector<TokenId>>> read_replay(Fields& fields,
                                                        const Tokenizer& tokenizer) {
  const Json* replay = fields.take("replay");
  if (replay == nullptr) return std::optional<std::vector<TokenId>>();
  if (replay->is(JsonKind::kString)) return std::optional(tokenizer.encode(replay->text));
  if (!replay->is(JsonKind::kArray))
    return wrong_kind("replay", *replay, "a text or a list of token ids");
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < replay->items.size(); ++i) {
    LILY_TRY(const auto id, read_integer(item_place("replay", i), replay->items[i]));
    if (id < 0 || id >= tokenizer.n_ids()) {
      return Error{ErrorCode::kInvalidArgument, item_place("replay", i) + ": no token has this id"};
    }
    ids.push_back(static_cast<TokenId>(id));
  }
  return std::optional(std::move(ids));
}

Constraints replay_constraints(const Engine& engine, std::vector<TokenId> tokens) {
  tokens.push_back(engine.spec().end_tokens.front());
  const auto shared = std::make_shared<const std::vector<TokenId>>(std::move(tokens));
  return [shared] { return std::make_shared<ReplayConstraint>(shared); };
}

}  // namespace lily::server
