// Ranges of code points that splitting and normalising ask about; unicode.h makes lookups of them.
#pragma once

#include <cstdint>
#include <span>

namespace lily {

struct CodePointRange {
  std::uint32_t first, last;  // Both included.
};

extern const std::span<const CodePointRange> kLetterRanges, kMarkRanges, kNumberRanges,
    kSpaceRanges;
extern const std::span<const CodePointRange> kNfcUnsafeRanges, kNfcYoungerRanges;

}  // namespace lily
