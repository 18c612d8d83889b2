// Masks joined, and a piece of text that is free until it ends.
#include "server/constraints.h"

#include <algorithm>
#include <functional>

namespace lily::server {
namespace {

constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kGapText = "\n\n";

bool may_complete(std::string_view bytes, std::string_view end) {
  return std::any_of(bytes.begin(), bytes.end(),
                     [&](char c) { return c == end.back() || c == end.front(); });
}

class BehindThinking final : public TokenConstraint {
 public:
  BehindThinking(const Engine& engine, std::shared_ptr<TokenConstraint> inner)
      : engine_(engine), thinking_(engine, kThinkEnd), inner_(std::move(inner)) {}

  void allowed(std::span<std::uint32_t> bits) override {
    if (part_ == Part::kThinking) return thinking_.allowed(bits);
    if (part_ == Part::kInner) return inner_->allowed(bits);
    std::fill(bits.begin(), bits.end(), 0u);
    const Tokenizer& tokenizer = engine_.tokenizer();
    for (TokenId id = 0; id < tokenizer.n_ids(); ++id) {
      const auto bytes = tokenizer.token_bytes(id);
      if (!bytes.empty() && kGapText.substr(n_gap_).starts_with(bytes)) set_bit(bits, id);
    }
  }

  bool accept(TokenId token) override {
    if (part_ == Part::kInner) return inner_->accept(token);
    if (part_ == Part::kThinking) {
      const auto state = thinking_.accept(token);
      if (state == FreeText::State::kEnded) part_ = Part::kGap;
      return state != FreeText::State::kRefused;
    }
    const auto bytes = engine_.tokenizer().token_bytes(token);
    if (bytes.empty() || !kGapText.substr(n_gap_).starts_with(bytes)) return false;
    n_gap_ += bytes.size();
    if (n_gap_ == kGapText.size()) part_ = Part::kInner;
    return true;
  }

 private:
  enum class Part { kThinking, kGap, kInner };
  const Engine& engine_;
  FreeText thinking_;
  std::shared_ptr<TokenConstraint> inner_;
  Part part_ = Part::kThinking;
  std::size_t n_gap_ = 0;
};

class Either final : public TokenConstraint {
 public:
  Either(std::shared_ptr<TokenConstraint> first, std::shared_ptr<TokenConstraint> second)
      : open_{std::move(first), std::move(second)} {}

  void allowed(std::span<std::uint32_t> bits) override {
    open_.front()->allowed(bits);
    if (open_.size() == 1) return;
    std::vector<std::uint32_t> other(bits.size());
    open_.back()->allowed(other);
    std::transform(bits.begin(), bits.end(), other.begin(), bits.begin(), std::bit_or<>());
  }

  bool accept(TokenId token) override {
    std::erase_if(open_, [&](const auto& one) { return !one->accept(token); });
    return !open_.empty();
  }

 private:
  std::vector<std::shared_ptr<TokenConstraint>> open_;
};

}  // namespace

void set_bit(std::span<std::uint32_t> bits, TokenId id) {
  const auto at = static_cast<std::size_t>(id);
  bits[at / 32] |= std::uint32_t{1} << (at % 32);
}

void clear_bit(std::span<std::uint32_t> bits, TokenId id) {
  const auto at = static_cast<std::size_t>(id);
  bits[at / 32] &= ~(std::uint32_t{1} << (at % 32));
}

bool is_end(const Engine& engine, TokenId id) {
  const auto& ends = engine.spec().end_tokens;
  return std::find(ends.begin(), ends.end(), id) != ends.end();
}

FreeText::FreeText(const Engine& engine, std::string_view end) : engine_(engine), end_(end) {
  auto borderline = std::make_shared<std::vector<TokenId>>();
  for (TokenId id = 0; id < engine.tokenizer().n_ids(); ++id) {
    if (may_complete(engine.tokenizer().token_bytes(id), end)) borderline->push_back(id);
  }
  borderline_ = std::move(borderline);
}

void FreeText::begin(std::string_view already) {
  tail_ = already;
}

void FreeText::allowed(std::span<std::uint32_t> bits) const {
  const Tokenizer& tokenizer = engine_.tokenizer();
  std::fill(bits.begin(), bits.end(), 0u);
  for (TokenId id = 0; id < tokenizer.n_ids(); ++id) {
    if (!tokenizer.token_bytes(id).empty() && !tokenizer.is_special(id)) set_bit(bits, id);
  }
  for (const TokenId id : engine_.spec().end_tokens) clear_bit(bits, id);
  for (const TokenId id : *borderline_) {
    const std::string text = std::string(tail_).append(tokenizer.token_bytes(id));
    const auto end = text.find(end_);
    if (end != std::string::npos && end + end_.size() < text.size()) clear_bit(bits, id);
  }
}

FreeText::State FreeText::accept(TokenId token) {
  const auto bytes = engine_.tokenizer().token_bytes(token);
  if (bytes.empty() || is_end(engine_, token)) return State::kRefused;
  tail_ += bytes;
  const auto end = tail_.find(end_);
  if (end != std::string::npos) {
    return end + end_.size() == tail_.size() ? State::kEnded : State::kRefused;
  }
  tail_.erase(0, tail_.size() - std::min(tail_.size(), end_.size() - 1));
  return State::kOpen;
}

Constraints behind_thinking(const Engine& engine, Constraints inner) {
  return [&engine, inner] { return std::make_shared<BehindThinking>(engine, inner()); };
}

Constraints either(Constraints first, Constraints second) {
  return [first, second] { return std::make_shared<Either>(first(), second()); };
}

}  // namespace lily::server
