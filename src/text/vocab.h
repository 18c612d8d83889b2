// The tokens' bytes by id, and the ids by bytes: one blob, one table of offsets, one
// open-addressing hash table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "spec/model_spec.h"

namespace lily {

inline constexpr TokenId kMaxTokenIds = 1 << 20;  // A merge's two ids and its rank share 64 bits.
inline constexpr TokenId kNoToken = -1;

class Vocab {
 public:
  // tokens[id] is the token's bytes, empty for an id that has none; at most kMaxTokenIds.
  // kCorrupt: two ids have the same bytes.
  static Result<Vocab> build(const std::vector<std::string_view>& tokens);

  TokenId find(std::string_view bytes) const {  // kNoToken: not in the vocabulary.
    if (bytes.size() > longest_ || bytes.empty()) return kNoToken;
    return slots_[slot_of(bytes)].id;
  }
  std::string_view bytes(TokenId id) const {  // Empty for an id without a token.
    if (id < 0 || id >= n_ids()) return {};
    const auto i = static_cast<std::size_t>(id);
    return std::string_view(blob_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  TokenId n_tokens() const { return n_tokens_; }  // Ids that have a token.
  TokenId n_ids() const { return static_cast<TokenId>(offsets_.size()) - 1; }

 private:
  struct Slot {
    std::uint32_t tag = 0;  // The half of the hash that does not choose the slot.
    TokenId id = kNoToken;
  };
  static std::uint64_t hash(std::string_view bytes);
  std::size_t slot_of(std::string_view bytes)
      const;  // The slot that holds them, or the empty one where they would go.

  std::string blob_;
  std::vector<std::uint32_t> offsets_ = {0};
  std::vector<Slot> slots_;
  std::size_t longest_ = 0;
  TokenId n_tokens_ = 0;
};

}  // namespace lily
