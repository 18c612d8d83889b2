// Building the merge table.
#include "text/merge_table.h"

#include <bit>
#include <string>

namespace lily {

Result<MergeTable> MergeTable::build(const std::array<TokenId, 256>& byte_ids,
                                     std::span<const Merge> merges) {
  if (merges.size() > kMaxMerges) {
    return Error{
        ErrorCode::kTooLarge,
        std::to_string(merges.size()) + " merges, expected at most " + std::to_string(kMaxMerges)};
  }
  MergeTable table;
  table.byte_ids_ = byte_ids;
  const std::size_t n_slots = std::bit_ceil(merges.size() * 2 + 2);
  table.slots_.assign(n_slots, kEmpty);
  table.shift_ = 64 - std::countr_zero(n_slots);
  table.results_.reserve(merges.size());
  for (const Merge& merge : merges) {
    const std::uint64_t wanted = key(merge.left, merge.right);
    std::uint64_t& slot = table.slots_[table.slot_of(wanted)];
    if (slot != kEmpty) {
      return Error{ErrorCode::kCorrupt, "merge " + std::to_string(table.results_.size()) +
                                            " repeats merge " + std::to_string(slot & kRankMask)};
    }
    slot = wanted << 24 | table.results_.size();
    table.results_.push_back(merge.result);
  }
  table.byte_ranks_.reserve(256 * 256);
  for (const TokenId left : byte_ids) {
    for (const TokenId right : byte_ids) table.byte_ranks_.push_back(table.rank(left, right));
  }
  return table;
}

}  // namespace lily
