// How a quantised matrix lies in memory. A matrix W [rows, cols] computes y = x W^T; group g of a row covers cols
// 64g .. 64g+63; a weight is scale * code + bias with an unsigned code of 4 or 8 bits (MLX affine).
#pragma once

#include <cstddef>
#include <cstdint>

#include "spec/model_spec.h"

namespace lily {

enum class WeightLayout : std::uint32_t {
  // As MLX stores it, aligned: codes [rows, cols * bits / 8] bytes, little end first; then scales and biases,
  // each [rows, cols / 64] bf16. The parts start at multiples of kSectionAlign.
  kRowMajor = 1,
  // Blocks of 16 rows, group after group, so that a core streams its rows in one sweep. Record (block, group):
  //   16 scales bf16 | 16 biases bf16 | 512 bytes of 4-bit codes | for 8 bits another 512 bytes
  // Code bytes: vector v (0..7), row r (0..15), byte i (0..3) at 64v + 4r + i; its low nibble belongs to column
  // 64g + 8v + i and its high nibble to 64g + 8v + 4 + i. An 8-bit code is two such planes: low nibbles, then high.
  // Rows are padded to a multiple of 16 with scale 0, bias 0, code 0.
  // A 32-bit lane holds four columns of one row: what maddubs, dpbusd and sdot take against a broadcast of four bytes.
  kInterleaved16 = 2,
};

inline constexpr int kBlockRows = 16;
inline constexpr std::size_t kSectionAlign = 64;
inline constexpr std::size_t kPlaneBytes = kBlockRows * kQuantGroup / 2;  // 512

constexpr std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

// Bytes of one (block, group) record of kInterleaved16: 576 for 4 bits, 1,088 for 8.
constexpr std::size_t record_bytes(int bits) {
  return 4 * kBlockRows + kPlaneBytes * static_cast<std::size_t>(bits / 4);
}

struct QuantShape {
  std::int64_t rows, cols;
  int bits;  // 4 or 8
};

// Offsets of the parts of one matrix and its size, in bytes.
struct QuantExtent {
  std::size_t scales = 0, biases = 0;  // kRowMajor only; codes are at 0
  std::size_t bytes = 0;
};

constexpr QuantExtent quant_extent(WeightLayout layout, QuantShape s) {
  const auto rows = static_cast<std::size_t>(s.rows), cols = static_cast<std::size_t>(s.cols);
  const std::size_t groups = cols / kQuantGroup;
  if (layout == WeightLayout::kInterleaved16) {
    return {0, 0, round_up(rows, kBlockRows) / kBlockRows * groups * record_bytes(s.bits)};
  }
  const std::size_t codes = round_up(rows * cols * static_cast<std::size_t>(s.bits) / 8, kSectionAlign);
  const std::size_t sides = round_up(rows * groups * 2, kSectionAlign);
  return {codes, codes + sides, codes + 2 * sides};
}

}  // namespace lily
