// Characters of several bytes that merging may start from whole, instead of from their bytes.
//
// Merging a character's bytes first gives the same tokens as merging everything in rank order, if
//   1. its bytes alone merge to one token f, by merges of rank up to m;
//   2. every merge that takes f as a part has a rank above m;
//   3. no merge joins a beginning of the character to what stands before it, or an end of it to
//   what follows.
// Then the merges inside the character and those around it never compete: while it is unfinished,
// the lowest rank at hand is at most m, so no merge on f could have come earlier. 1 and 2 are
// properties of the character. For 3 it is enough to look at the byte before it (the family's
// vocabulary has merges of " " with beginnings) and at its own last byte.
#pragma once

#include <bitset>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/merge_table.h"
#include "text/vocab.h"

namespace lily {

class FusedChars {
 public:
  FusedChars() = default;
  FusedChars(const Vocab& vocab, const MergeTable& table, std::span<const Merge> merges);

  // The token to start from for a character of two bytes or more; kNoToken: start from its bytes.
  // `before` is the byte in front of it in the piece, -1 at the piece's beginning.
  TokenId find(std::uint32_t code_point, int before) const {
    if (before >= 0 && joins_beginnings_[static_cast<std::size_t>(before)]) return kNoToken;
    return pages_[page_of_[code_point >> 6] * std::size_t{64} + (code_point & 63)];
  }

 private:
  void find_joins(const Vocab& vocab, std::span<const Merge> merges);
  void add(std::uint32_t code_point, TokenId id);

  std::bitset<256>
      joins_beginnings_;  // Bytes after which some merge takes an unfinished character.
  std::bitset<256>
      ends_joined_;  // Last bytes of parts of characters that some merge joins to what follows.
  std::vector<std::uint16_t> page_of_ = std::vector<std::uint16_t>(0x110000 / 64);
  std::vector<TokenId> pages_ = std::vector<TokenId>(64, kNoToken);  // Page 0: none.
};

}  // namespace lily
