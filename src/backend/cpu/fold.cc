// fold: what reading costs without arithmetic, split among the threads as products are.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "base/check.h"

namespace lily::cpu {

void CpuBackend::fold(const FoldArgs& args) {
  constexpr std::int64_t kPiece = std::int64_t{1} << 18;
  if (args.matrix.rows > 0) return linear_.fold(args.matrix, args.sink);
  const std::int64_t pieces = (args.bytes + kPiece - 1) / kPiece;
  LILY_CHECK(args.bytes >= 0 && args.bytes % 16 == 0 && pieces <= kFoldWords);
  if (pieces == 0) {
    args.sink[0] = 0;
    return pool_.run([](int, int) {});
  }
  const auto* const from = static_cast<const std::byte*>(args.from);
  pool_.parallel_for(pieces, [&](std::int64_t piece) {
    const std::int64_t at = piece * kPiece;
    args.sink[piece] = kernels_.fold(from + at, std::min(kPiece, args.bytes - at));
  });
}

}  // namespace lily::cpu
