// Finding spellings: sorted, and narrowed byte by byte, so a thousand tokens with a common
// beginning cost a few steps.
#include "text/added_tokens.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lily {
namespace {

// The byte of a spelling, -1 past its end: what sorting compares.
int byte_at(const AddedToken& token, std::size_t depth) {
  return depth < token.spelling.size() ? static_cast<unsigned char>(token.spelling[depth]) : -1;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), by_id_(tokens_.size()) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.spelling < b.spelling; });
  std::iota(by_id_.begin(), by_id_.end(), std::size_t{0});
  std::sort(by_id_.begin(), by_id_.end(),
            [this](std::size_t a, std::size_t b) { return tokens_[a].id < tokens_[b].id; });
  for (const AddedToken& token : tokens_)
    starts_.set(static_cast<unsigned char>(token.spelling[0]));
}

const AddedToken* AddedTokens::longest_at(std::string_view text) const {
  const AddedToken* found = nullptr;
  auto low = tokens_.begin(), high = tokens_.end();
  for (std::size_t depth = 0; depth < text.size() && low != high; ++depth) {
    const int wanted = static_cast<unsigned char>(text[depth]);
    low = std::partition_point(low, high,
                               [&](const AddedToken& t) { return byte_at(t, depth) < wanted; });
    high = std::partition_point(low, high,
                                [&](const AddedToken& t) { return byte_at(t, depth) <= wanted; });
    if (low != high && low->spelling.size() == depth + 1) found = &*low;
  }
  return found;
}

AddedTokens::Match AddedTokens::find(std::string_view text, std::size_t begin,
                                     std::size_t end) const {
  for (std::size_t at = begin; at < end; ++at) {
    if (!starts_[static_cast<unsigned char>(text[at])]) continue;
    if (const AddedToken* token = longest_at(text.substr(at, end - at))) return {at, token};
  }
  return {};
}

const AddedToken* AddedTokens::by_spelling(std::string_view spelling) const {
  const AddedToken* token = longest_at(spelling);
  return token != nullptr && token->spelling == spelling ? token : nullptr;
}

const AddedToken* AddedTokens::by_id(TokenId id) const {
  const auto found = std::partition_point(by_id_.begin(), by_id_.end(),
                                          [&](std::size_t i) { return tokens_[i].id < id; });
  return found != by_id_.end() && tokens_[*found].id == id ? &tokens_[*found] : nullptr;
}

}  // namespace lily
