// fold: the exclusive or of all words, one after the other.
#include <cstring>
#include <span>

#include "backend/reference/reference_backend.h"
#include "base/check.h"

namespace lily::reference {
namespace {

std::uint32_t fold_of(const void* from, std::size_t bytes) {
  LILY_CHECK(bytes % 4 == 0);
  std::uint32_t word = 0;
  for (std::size_t at = 0; at < bytes; at += 4) {
    std::uint32_t next = 0;
    std::memcpy(&next, static_cast<const std::byte*>(from) + at, sizeof next);
    word ^= next;
  }
  return word;
}

}  // namespace

void ReferenceBackend::fold(const FoldArgs& args) {
  const QuantMatrix& m = args.matrix;
  if (m.rows == 0) {
    args.sink[0] = fold_of(args.from, static_cast<std::size_t>(args.bytes));
    return;
  }
  LILY_CHECK(m.layout == static_cast<std::uint32_t>(WeightLayout::kRowMajor));
  const std::size_t elements = static_cast<std::size_t>(m.rows) * static_cast<std::size_t>(m.cols);
  const std::size_t side_bytes = elements / kQuantGroup * sizeof(std::uint16_t);
  args.sink[0] = fold_of(m.codes, elements * static_cast<std::size_t>(m.bits) / 8) ^
                 fold_of(m.scales, side_bytes) ^ fold_of(m.biases, side_bytes);
}

}  // namespace lily::reference
