// The two ways to merge: scanning for the lowest rank in a short piece, a queue of candidates over
// a long one.
#include "text/bpe.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "text/unicode.h"

namespace lily {
namespace {

using Rank = MergeTable::Rank;
constexpr Rank kNoRank = MergeTable::kNoRank;
constexpr std::uint32_t kNoNode = 0xFFFFFFFF;
constexpr std::size_t kScanTokens = 64;  // Up to here a scan per merge beats the queue.

}  // namespace

Result<Bpe> Bpe::build(const Vocab& vocab, const std::array<TokenId, 256>& byte_ids,
                       std::span<const Merge> merges, bool fuse_chars) {
  Bpe bpe;
  LILY_TRY(bpe.merges_, MergeTable::build(byte_ids, merges));
  if (fuse_chars) bpe.fused_ = FusedChars(vocab, bpe.merges_, merges);
  return bpe;
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  while (!piece.empty()) {
    const std::string_view part = piece.substr(0, kMaxPieceBytes);
    std::size_t n = start(part, scratch);
    n = n <= kScanTokens ? scan(scratch, n) : run_queue(scratch, n);
    out.insert(out.end(), scratch.ids.data(), scratch.ids.data() + n);
    piece.remove_prefix(part.size());
  }
}

void Bpe::encode(std::string_view piece, Way way, Scratch& scratch,
                 std::vector<TokenId>& out) const {
  const std::size_t n_start = start(piece, scratch);
  const std::size_t n = way == Way::kScan ? scan(scratch, n_start) : run_queue(scratch, n_start);
  out.insert(out.end(), scratch.ids.data(), scratch.ids.data() + n);
}

// Fills ids and ranks with the tokens that merging starts from, and says how many they are.
std::size_t Bpe::start(std::string_view piece, Scratch& scratch) const {
  if (scratch.ids.size() < piece.size()) {
    scratch.ids.resize(piece.size());
    scratch.ranks.resize(piece.size());
  }
  TokenId* ids = scratch.ids.data();
  Rank* ranks = scratch.ranks.data();
  std::size_t n = 0;
  int before = -1;          // The byte before.
  bool bytes_join = false;  // The token before is the single byte `before`.
  for (std::size_t at = 0; at < piece.size();) {
    const auto byte = static_cast<unsigned char>(piece[at]);
    TokenId id = kNoToken;
    if (byte >= 0xC2) {
      const Utf8Char c = decode_utf8(piece.substr(at));
      if (c.size > 0) id = fused_.find(c.code_point, before);
      if (id != kNoToken) at += c.size;
    }
    const bool single = id == kNoToken;
    if (single) {
      id = merges_.byte_id(byte);
      ++at;
    }
    if (n > 0) {
      ranks[n - 1] = single && bytes_join
                         ? merges_.byte_rank(static_cast<unsigned char>(before), byte)
                         : merges_.rank(ids[n - 1], id);
    }
    ids[n++] = id;
    before = static_cast<unsigned char>(piece[at - 1]);
    bytes_join = single;
  }
  if (n > 0) ranks[n - 1] = kNoRank;
  return n;
}

std::size_t Bpe::scan(Scratch& scratch, std::size_t n) const {
  TokenId* ids = scratch.ids.data();
  Rank* ranks = scratch.ranks.data();
  while (n > 1) {
    Rank best = kNoRank;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < n; ++i) {
      at = ranks[i] < best ? i : at;
      best = std::min(best, ranks[i]);
    }
    if (best == kNoRank) break;
    ids[at] = merges_.result(best);
    for (std::size_t i = at + 1; i + 1 < n; ++i) {
      ids[i] = ids[i + 1];
      ranks[i - 1] = ranks[i];
    }
    --n;
    ranks[n - 1] = kNoRank;
    if (at + 1 < n) ranks[at] = merges_.rank(ids[at], ids[at + 1]);
    if (at > 0) ranks[at - 1] = merges_.rank(ids[at - 1], ids[at]);
  }
  return n;
}

// Looks up the pair that starts at `left` and queues it if a merge joins it.
void Bpe::offer(Scratch& scratch, std::uint32_t left) const {
  auto& node = scratch.nodes[left];
  node.rank = node.next == kNoNode ? kNoRank : merges_.rank(node.id, scratch.nodes[node.next].id);
  if (node.rank != kNoRank) scratch.queue.push(static_cast<std::uint32_t>(node.rank), left);
}

void Bpe::join(Scratch& scratch, std::uint32_t left) const {
  auto& nodes = scratch.nodes;
  auto& node = nodes[left];
  auto& gone = nodes[node.next];
  node.id = merges_.result(node.rank);
  node.next = gone.next;
  gone.rank = kNoRank;
  if (node.next != kNoNode) nodes[node.next].previous = left;
  if (node.previous != kNoNode) offer(scratch, node.previous);
  offer(scratch, left);
}

std::size_t Bpe::run_queue(Scratch& scratch, std::size_t n) const {
  auto& [ids, ranks, nodes, queue] = scratch;
  nodes.resize(n);
  queue.start(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    nodes[i] = {ids[i], ranks[i], i > 0 ? i - 1 : kNoNode, i + 1 < n ? i + 1 : kNoNode};
    if (ranks[i] != kNoRank) queue.push(static_cast<std::uint32_t>(ranks[i]), i);
  }
  for (std::uint64_t key = 0; queue.pop(key);) {
    const auto left = static_cast<std::uint32_t>(key);
    __builtin_prefetch(&nodes[queue.soon()]);
    if (nodes[left].rank == static_cast<Rank>(key >> 32))
      join(scratch, left);  // Else a neighbour has changed since.
  }
  std::size_t left = 0;
  for (std::uint32_t i = n > 0 ? 0 : kNoNode; i != kNoNode; i = nodes[i].next)
    ids[left++] = nodes[i].id;
  return left;
}

}  // namespace lily
