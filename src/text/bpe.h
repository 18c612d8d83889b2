// Byte-pair merging: of all neighbours that a merge joins, the pair of the lowest rank first, the
// leftmost on a tie.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/fused_chars.h"
#include "text/merge_queue.h"
#include "text/merge_table.h"
#include "text/vocab.h"

namespace lily {

class Bpe {
 public:
  static constexpr std::size_t kMaxPieceBytes =
      std::size_t{16} << 20;  // Longer pieces are cut, to bound the scratch.

  // fuse_chars: start from whole characters where that is known to change nothing (off: for tests).
  // Errors: MergeTable::build's.
  static Result<Bpe> build(const Vocab& vocab, const std::array<TokenId, 256>& byte_ids,
                           std::span<const Merge> merges, bool fuse_chars = true);

  // Buffers of one encoding, reused from piece to piece.
  struct Scratch {
    struct Node {
      TokenId id;
      MergeTable::Rank
          rank;  // Of the pair that starts here; kNoRank: no merge joins it, or the node is gone.
      std::uint32_t previous, next;  // Neighbours still there.
    };
    std::vector<TokenId> ids;  // The piece's tokens ...
    std::vector<MergeTable::Rank>
        ranks;  // ... and the rank of the pair that starts at each; kNoRank for the last.
    std::vector<Node> nodes;
    MergeQueue queue;
  };

  // Appends the tokens of one piece of valid UTF-8, by the way that suits its length.
  void encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

  // The two ways, which give the same tokens.
  enum class Way { kScan, kQueue };
  void encode(std::string_view piece, Way way, Scratch& scratch, std::vector<TokenId>& out) const;

 private:
  std::size_t start(std::string_view piece, Scratch& scratch) const;
  std::size_t scan(Scratch& scratch, std::size_t n) const;
  std::size_t run_queue(Scratch& scratch, std::size_t n) const;
  void join(Scratch& scratch, std::uint32_t left) const;
  void offer(Scratch& scratch, std::uint32_t left) const;

  MergeTable merges_;
  FusedChars fused_;
};

}  // namespace lily
