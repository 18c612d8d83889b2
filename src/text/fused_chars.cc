// Working out which characters may be fused.
#include "text/fused_chars.h"

#include <algorithm>
#include <array>

#include "text/unicode.h"

namespace lily {
namespace {

using Rank = MergeTable::Rank;

bool is_continuation(char byte) {
  return (byte & 0xC0) == 0x80;
}

// Starts where a character does and stops inside it: "\xE4\xBD".
bool is_beginning(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  const std::size_t size = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return bytes.size() < size;
}

bool is_ending(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), is_continuation);
}

// The highest rank used when the character's bytes merge to one token; kNoRank if they do not.
Rank rank_of_char(const MergeTable& table, std::string_view bytes) {
  std::array<TokenId, 4> ids{};
  std::size_t n = bytes.size();
  for (std::size_t i = 0; i < n; ++i) ids[i] = table.byte_id(static_cast<unsigned char>(bytes[i]));
  Rank highest = -1;
  while (n > 1) {
    Rank best = MergeTable::kNoRank;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < n; ++i) {
      const Rank rank = table.rank(ids[i], ids[i + 1]);
      if (rank < best) {
        best = rank;
        at = i;
      }
    }
    if (best == MergeTable::kNoRank) return best;
    ids[at] = table.result(best);
    std::copy(ids.begin() + at + 2, ids.begin() + n, ids.begin() + at + 1);
    highest = std::max(highest, best);
    --n;
  }
  return highest;
}

// By token: the lowest rank of a merge that takes it as a part.
std::vector<Rank> first_uses(TokenId n_ids, std::span<const Merge> merges) {
  std::vector<Rank> first(static_cast<std::size_t>(n_ids), MergeTable::kNoRank);
  for (std::size_t i = merges.size(); i-- > 0;) {
    first[static_cast<std::size_t>(merges[i].left)] = static_cast<Rank>(i);
    first[static_cast<std::size_t>(merges[i].right)] = static_cast<Rank>(i);
  }
  return first;
}

}  // namespace

FusedChars::FusedChars(const Vocab& vocab, const MergeTable& table, std::span<const Merge> merges) {
  find_joins(vocab, merges);
  const std::vector<Rank> first_use = first_uses(vocab.n_ids(), merges);
  for (TokenId id = 0; id < vocab.n_ids(); ++id) {
    const std::string_view bytes = vocab.bytes(id);
    if (bytes.size() < 2 || bytes.size() > 4) continue;
    const Utf8Char c = decode_utf8(bytes);
    if (c.size != bytes.size() || ends_joined_[static_cast<unsigned char>(bytes.back())]) continue;
    const Rank rank = rank_of_char(table, bytes);
    if (rank != MergeTable::kNoRank && rank < first_use[static_cast<std::size_t>(id)])
      add(c.code_point, id);
  }
}

void FusedChars::find_joins(const Vocab& vocab, std::span<const Merge> merges) {
  for (const Merge& merge : merges) {
    const std::string_view left = vocab.bytes(merge.left), right = vocab.bytes(merge.right);
    const auto last = static_cast<unsigned char>(left.back());
    if (is_beginning(right)) joins_beginnings_.set(last);
    if (is_ending(left) && !is_continuation(right[0])) ends_joined_.set(last);
  }
}

void FusedChars::add(std::uint32_t code_point, TokenId id) {
  std::uint16_t& page = page_of_[code_point >> 6];
  if (page == 0) {
    page = static_cast<std::uint16_t>(pages_.size() / 64);
    pages_.resize(pages_.size() + 64, kNoToken);
  }
  pages_[page * std::size_t{64} + (code_point & 63)] = id;
}

}  // namespace lily
