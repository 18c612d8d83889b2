// Building and probing the token table.
#include "text/vocab.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace lily {
namespace {

std::uint64_t load(const char* at, std::size_t size) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, size);
  return word;
}

// Up to eight bytes without a call: two loads that may overlap.
std::uint64_t load_short(std::string_view bytes) {
  const std::size_t n = bytes.size();
  if (n >= 4) return load(bytes.data(), 4) | load(bytes.data() + n - 4, 4) << 32;
  const auto byte = [bytes](std::size_t i) {
    return static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i]));
  };
  return byte(0) | byte(n / 2) << 8 | byte(n - 1) << 16;
}

std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
  state = (state ^ word) * 0x9E3779B97F4A7C15u;
  return state ^ state >> 29;
}

}  // namespace

std::uint64_t Vocab::hash(std::string_view bytes) {
  std::uint64_t state = bytes.size() * 0xC2B2AE3D27D4EB4Fu;
  while (bytes.size() > 8) {
    state = mix(state, load(bytes.data(), 8));
    bytes.remove_prefix(8);
  }
  return mix(mix(state, load_short(bytes)), 0xD6E8FEB86659FD93u);
}

std::size_t Vocab::slot_of(std::string_view wanted) const {
  const std::uint64_t h = hash(wanted);
  const auto tag = static_cast<std::uint32_t>(h);
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = (h >> 32) & mask;
  while (slots_[i].id != kNoToken && (slots_[i].tag != tag || bytes(slots_[i].id) != wanted))
    i = (i + 1) & mask;
  return i;
}

Result<Vocab> Vocab::build(const std::vector<std::string_view>& tokens) {
  Vocab vocab;
  vocab.offsets_.reserve(tokens.size() + 1);
  for (const std::string_view token : tokens) {
    vocab.blob_ += token;
    vocab.offsets_.push_back(static_cast<std::uint32_t>(vocab.blob_.size()));
    vocab.longest_ = std::max(vocab.longest_, token.size());
  }
  vocab.slots_.resize(std::bit_ceil(tokens.size() * 2 + 2));
  for (TokenId id = 0; id < vocab.n_ids(); ++id) {
    const std::string_view token = vocab.bytes(id);
    if (token.empty()) continue;
    Slot& slot = vocab.slots_[vocab.slot_of(token)];
    if (slot.id != kNoToken) {
      return Error{ErrorCode::kCorrupt, "ids " + std::to_string(slot.id) + " and " +
                                            std::to_string(id) + " are the same token"};
    }
    slot = {static_cast<std::uint32_t>(hash(token)), id};
    ++vocab.n_tokens_;
  }
  return vocab;
}

}  // namespace lily
