// The 16-row records; see interleave.h.
#include "weights/interleave.h"

#include <algorithm>
#include <cstring>

#include "spec/layout.h"

namespace lily {
namespace {

constexpr std::size_t kVectors = kQuantGroup / 8;                 // 32-bit lanes per row and group
constexpr std::size_t kSideBytes = kBlockRows * 2;                // 16 bf16
constexpr std::uint32_t kLowNibbles = 0x0f0f0f0fu;

using Tile = std::uint32_t[kVectors][kBlockRows];

std::uint32_t load32(const std::byte* at) {
  std::uint32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Eight codes of a word in column order n0 .. n7 become n0 n4 n1 n5 n2 n6 n3 n7: byte i then holds columns i and i + 4.
// Two exchanges: bytes 1 and 2, then nibbles 1 and 2 of each half.
constexpr std::uint32_t pair_columns(std::uint32_t word) {
  const std::uint32_t bytes = (word ^ (word >> 8)) & 0x0000ff00u;
  word ^= bytes ^ (bytes << 8);
  const std::uint32_t nibbles = (word ^ (word >> 4)) & 0x00f000f0u;
  return word ^ nibbles ^ (nibbles << 4);
}
static_assert(pair_columns(0x76543210u) == 0x73625140u);

void codes4(const std::byte* group, std::size_t row_bytes, std::size_t rows, std::byte* out) {
  Tile tile = {};
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t v = 0; v < kVectors; ++v) tile[v][r] = pair_columns(load32(group + r * row_bytes + 4 * v));
  }
  std::memcpy(out, tile, sizeof tile);
}

void codes8(const std::byte* group, std::size_t row_bytes, std::size_t rows, std::byte* out) {
  Tile low = {}, high = {};
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::uint32_t first = load32(group + r * row_bytes + 8 * v);
      const std::uint32_t second = load32(group + r * row_bytes + 8 * v + 4);
      low[v][r] = (first & kLowNibbles) | ((second & kLowNibbles) << 4);
      high[v][r] = ((first >> 4) & kLowNibbles) | (second & ~kLowNibbles);
    }
  }
  std::memcpy(out, low, sizeof low);
  std::memcpy(out + sizeof low, high, sizeof high);
}

// One bf16 a row, groups apart in the source, side by side in the record.
void side(const std::byte* first, std::size_t row_bytes, std::size_t rows, std::byte* out) {
  std::memset(out, 0, kSideBytes);
  for (std::size_t r = 0; r < rows; ++r) std::memcpy(out + 2 * r, first + r * row_bytes, 2);
}

}  // namespace

void interleave_block(const BlockSource& source, std::byte* out) {
  const std::size_t groups = source.cols / kQuantGroup;
  const std::size_t bits = static_cast<std::size_t>(source.bits);
  const std::size_t row_bytes = source.cols * bits / 8, group_bytes = kQuantGroup * bits / 8;
  for (std::size_t g = 0; g < groups; ++g) {
    side(source.scales + 2 * g, 2 * groups, source.rows, out);
    side(source.biases + 2 * g, 2 * groups, source.rows, out + kSideBytes);
    const auto codes = source.bits == 4 ? codes4 : codes8;
    codes(source.codes + g * group_bytes, row_bytes, source.rows, out + 2 * kSideBytes);
    out += record_bytes(source.bits);
  }
}

std::int64_t first_not_finite(const std::byte* values, std::size_t n) {
  constexpr std::uint16_t kExponent = 0x7f80;
  constexpr std::size_t kStride = 4096;
  for (std::size_t begin = 0; begin < n; begin += kStride) {
    const std::size_t end = std::min(n, begin + kStride);
    int bad = 0;  // Counted, not left early, so that the loop vectorises.
    for (std::size_t i = begin; i < end; ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, values + 2 * i, 2);
      bad += (bits & kExponent) == kExponent;
    }
    for (std::size_t i = begin; bad && i < end; ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, values + 2 * i, 2);
      if ((bits & kExponent) == kExponent) return static_cast<std::int64_t>(i);
    }
  }
  return -1;
}

}  // namespace lily
