// The merges as a lookup: two neighbouring tokens -> the rank of the merge that joins them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "spec/model_spec.h"

namespace lily {

struct Merge {
  TokenId left, right, result;
};

class MergeTable {
 public:
  using Rank = std::int32_t;
  static constexpr Rank kNoRank = 0x7FFFFFFF;
  static constexpr std::size_t kMaxMerges = (std::size_t{1} << 24) - 2;

  // byte_ids: the token of each byte; merges in rank order, ids below kMaxTokenIds.
  // kCorrupt: a pair occurs twice; kTooLarge: more than kMaxMerges.
  static Result<MergeTable> build(const std::array<TokenId, 256>& byte_ids,
                                  std::span<const Merge> merges);

  Rank rank(TokenId left, TokenId right) const {
    const std::uint64_t slot = slots_[slot_of(key(left, right))];
    return slot == kEmpty ? kNoRank : static_cast<Rank>(slot & kRankMask);
  }
  Rank byte_rank(unsigned char left,
                 unsigned char right) const {  // rank(byte_ids[left], byte_ids[right])
    return byte_ranks_[std::size_t{left} * 256 + right];
  }
  TokenId byte_id(unsigned char byte) const { return byte_ids_[byte]; }
  TokenId result(Rank rank) const { return results_[static_cast<std::size_t>(rank)]; }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  static constexpr std::uint64_t kRankMask = (std::uint64_t{1} << 24) - 1;

  static std::uint64_t key(TokenId left, TokenId right) {
    return static_cast<std::uint64_t>(left) << 20 | static_cast<std::uint64_t>(right);
  }
  std::size_t slot_of(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    auto i = static_cast<std::size_t>(key * 0x9E3779B97F4A7C15u >> shift_);
    while (slots_[i] != kEmpty && slots_[i] >> 24 != key) i = (i + 1) & mask;
    return i;
  }

  std::array<TokenId, 256> byte_ids_{};
  std::vector<std::uint64_t>
      slots_;  // left << 44 | right << 24 | rank, linear probing, at most half full
  std::vector<Rank>
      byte_ranks_;  // [256, 256]: most lookups of a piece are its first ones, on bytes.
  std::vector<TokenId> results_;  // By rank.
  int shift_ = 0;                 // 64 - log2(slots)
};

}  // namespace lily
