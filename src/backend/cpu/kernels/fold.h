// Memory read and folded, with nothing computed of what was read: for measuring. Included by
// table.h alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lily::cpu::LILY_ISA {

// Sixteen words as compilers hold them in as few registers as the instruction set has.
using FoldLanes = std::uint32_t __attribute__((vector_size(64)));

// The exclusive or of all 32-bit words; n_bytes is a multiple of 16.
inline std::uint32_t fold(const std::byte* bytes, std::int64_t n_bytes) {
  constexpr std::int64_t kRound = 4 * sizeof(FoldLanes);
  FoldLanes sums[4] = {};
  for (; n_bytes >= kRound; bytes += kRound, n_bytes -= kRound) {
    FoldLanes read[4];
    std::memcpy(&read, bytes, sizeof read);
    for (int i = 0; i < 4; ++i) sums[i] ^= read[i];
  }
  const FoldLanes all = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 16; ++i) word ^= all[i];
  for (; n_bytes > 0; bytes += 4, n_bytes -= 4) {
    std::uint32_t next = 0;
    std::memcpy(&next, bytes, sizeof next);
    word ^= next;
  }
  return word;
}

}  // namespace lily::cpu::LILY_ISA
