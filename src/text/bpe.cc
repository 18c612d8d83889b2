// The merge table and the two ways to run it: a scan over short pieces, a heap over long ones.
#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <string>

#include "text/vocab.h"

namespace lily {
namespace {

constexpr std::uint64_t kEmptySlot = ~std::uint64_t{0};
constexpr std::uint64_t kRankMask = (std::uint64_t{1} << 24) - 1;
constexpr std::uint32_t kNoNode = 0xFFFFFFFF;

std::uint64_t pair_key(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(left) << 20 | static_cast<std::uint64_t>(right);
}

}  // namespace

std::size_t Bpe::slot_of(std::uint64_t key) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = static_cast<std::size_t>(key * 0x9E3779B97F4A7C15u >> shift_);
  while (slots_[i] != kEmptySlot && slots_[i] >> 24 != key) i = (i + 1) & mask;
  return i;
}

Bpe::Rank Bpe::rank_of(TokenId left, TokenId right) const {
  const std::uint64_t slot = slots_[slot_of(pair_key(left, right))];
  return slot == kEmptySlot ? kNoRank : static_cast<Rank>(slot & kRankMask);
}

Result<Bpe> Bpe::build(const std::array<TokenId, 256>& byte_ids, std::span<const Merge> merges) {
  if (merges.size() > kMaxMerges) {
    return Error{ErrorCode::kTooLarge, std::to_string(merges.size()) + " merges, expected at most " +
                                           std::to_string(kMaxMerges)};
  }
  Bpe bpe;
  bpe.byte_ids_ = byte_ids;
  const std::size_t n_slots = std::bit_ceil(merges.size() * 2 + 2);
  bpe.slots_.assign(n_slots, kEmptySlot);
  bpe.shift_ = 64 - std::countr_zero(n_slots);
  bpe.results_.reserve(merges.size());
  for (const Merge& merge : merges) {
    const std::uint64_t key = pair_key(merge.left, merge.right);
    std::uint64_t& slot = bpe.slots_[bpe.slot_of(key)];
    if (slot != kEmptySlot) {
      return Error{ErrorCode::kCorrupt, "merge " + std::to_string(bpe.results_.size()) + " repeats merge " +
                                            std::to_string(slot & kRankMask)};
    }
    slot = key << 24 | bpe.results_.size();
    bpe.results_.push_back(merge.result);
  }
  return bpe;
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  while (piece.size() > kShortBytes) {
    const std::string_view part = piece.substr(0, kMaxPieceBytes);
    encode_long(part, scratch, out);
    piece.remove_prefix(part.size());
  }
  encode_short(piece, out);
}

void Bpe::encode_short(std::string_view piece, std::vector<TokenId>& out) const {
  std::array<TokenId, kShortBytes> ids;
  std::array<std::int32_t, kShortBytes> ranks;  // Of the pair (i, i + 1); kNoRank for the last.
  std::size_t n = piece.size();
  for (std::size_t i = 0; i < n; ++i) ids[i] = byte_ids_[static_cast<unsigned char>(piece[i])];
  const auto update = [&](std::size_t i) {
    ranks[i] = static_cast<std::int32_t>(i + 1 < n ? rank_of(ids[i], ids[i + 1]) : kNoRank);
  };
  for (std::size_t i = 0; i < n; ++i) update(i);
  while (n > 1) {
    std::int32_t best = kNoRank;
    for (std::size_t i = 0; i < n; ++i) best = std::min(best, ranks[i]);
    if (best == static_cast<std::int32_t>(kNoRank)) break;
    const auto at = static_cast<std::size_t>(std::find(ranks.data(), ranks.data() + n, best) - ranks.data());
    ids[at] = results_[static_cast<std::size_t>(best)];
    std::memmove(&ids[at + 1], &ids[at + 1] + 1, (n - at - 2) * sizeof(TokenId));
    std::memmove(&ranks[at], &ranks[at] + 1, (n - at - 1) * sizeof(std::int32_t));
    --n;
    update(at);
    if (at > 0) update(at - 1);
  }
  out.insert(out.end(), ids.data(), ids.data() + n);
}

// Puts the pair that starts at `left` on the heap, if a merge joins it.
void Bpe::offer(Scratch& scratch, std::uint32_t left) const {
  const std::uint32_t right = scratch.nodes[left].next;
  if (right == kNoNode) return;
  const Rank rank = rank_of(scratch.nodes[left].id, scratch.nodes[right].id);
  if (rank == kNoRank) return;
  scratch.heap.push_back(static_cast<std::uint64_t>(rank) << 32 | left);
}

// Joins the pair if it is still there: a neighbour may have been merged since it was offered.
void Bpe::join(Scratch& scratch, std::uint32_t left, Rank rank) const {
  auto& nodes = scratch.nodes;
  const std::uint32_t right = nodes[left].next;
  if (nodes[left].id == kNoToken || right == kNoNode) return;
  if (rank_of(nodes[left].id, nodes[right].id) != rank) return;
  nodes[left].id = results_[rank];
  nodes[left].next = nodes[right].next;
  nodes[right].id = kNoToken;
  if (nodes[left].next != kNoNode) nodes[nodes[left].next].previous = left;
  for (const std::uint32_t at : {nodes[left].previous, left}) {
    if (at == kNoNode) continue;
    const std::size_t before = scratch.heap.size();
    offer(scratch, at);
    if (scratch.heap.size() > before) std::push_heap(scratch.heap.begin(), scratch.heap.end(), std::greater<>());
  }
}

void Bpe::encode_long(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  auto& [nodes, heap] = scratch;
  const auto n = static_cast<std::uint32_t>(piece.size());
  nodes.resize(n);
  heap.clear();
  for (std::uint32_t i = 0; i < n; ++i) {
    nodes[i] = {byte_ids_[static_cast<unsigned char>(piece[i])], i > 0 ? i - 1 : kNoNode, i + 1 < n ? i + 1 : kNoNode};
  }
  for (std::uint32_t i = 0; i < n; ++i) offer(scratch, i);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const std::uint64_t top = heap.back();
    heap.pop_back();
    join(scratch, static_cast<std::uint32_t>(top), static_cast<Rank>(top >> 32));
  }
  for (std::uint32_t i = 0; i != kNoNode; i = nodes[i].next) out.push_back(nodes[i].id);
}

}  // namespace lily
