// Byte-pair merging: of all neighbours that a merge joins, the pair of the lowest rank first, the leftmost on a tie.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "spec/model_spec.h"

namespace lily {

struct Merge {
  TokenId left, right, result;
};

class Bpe {
 public:
  static constexpr std::size_t kMaxMerges = (std::size_t{1} << 24) - 2;
  static constexpr std::size_t kMaxPieceBytes = std::size_t{16} << 20;  // Longer pieces are cut here, to bound scratch.

  // byte_ids: the token of each byte; merges in rank order, ids below kMaxTokenIds.
  // kCorrupt: a pair occurs twice; kTooLarge: more than kMaxMerges.
  static Result<Bpe> build(const std::array<TokenId, 256>& byte_ids, std::span<const Merge> merges);

  // Buffers of one encoding, reused from piece to piece.
  struct Scratch {
    struct Node {
      TokenId id;
      std::uint32_t previous, next;  // Neighbours still alive.
    };
    std::vector<Node> nodes;
    std::vector<std::uint64_t> heap;  // rank << 32 | position of the left part
  };

  // Appends the tokens of one piece.
  void encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

 private:
  using Rank = std::uint32_t;
  static constexpr Rank kNoRank = 0x7FFFFFFF;
  static constexpr std::size_t kShortBytes = 96;  // Up to here scanning for the lowest rank beats a heap.

  Rank rank_of(TokenId left, TokenId right) const;
  std::size_t slot_of(std::uint64_t key) const;
  void encode_short(std::string_view piece, std::vector<TokenId>& out) const;
  void encode_long(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;
  void offer(Scratch& scratch, std::uint32_t left) const;
  void join(Scratch& scratch, std::uint32_t left, Rank rank) const;

  std::array<TokenId, 256> byte_ids_{};
  std::vector<std::uint64_t> slots_;  // left << 44 | right << 24 | rank, linear probing; all ones: empty
  std::vector<TokenId> results_;      // rank -> id
  int shift_ = 0;                     // 64 - log2(slots)
};

}  // namespace lily
