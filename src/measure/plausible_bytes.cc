// One piece of random bytes, written as often as it takes.
#include "measure/plausible_bytes.h"

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace lily {
namespace {

// Pieces do not repeat in step with rows.
constexpr std::size_t kPieceBytes = (std::size_t{1} << 20) + 4096;

}  // namespace

std::vector<std::byte> plausible_bytes(std::size_t n) {
  std::vector<std::byte> out(n);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = static_cast<std::byte>(0x3b + static_cast<int>(3 * uniform_draw(1, i)));
  return out;
}

Result<Buffer> plausible_buffer(Backend& backend, std::size_t bytes, std::string_view what) {
  static const std::vector<std::byte> piece = plausible_bytes(kPieceBytes);
  LILY_TRY(auto buffer, backend.allocate(bytes, what));
  for (std::size_t at = 0; at < bytes; at += piece.size())
    backend.write(buffer, at, std::span(piece).first(std::min(piece.size(), bytes - at)));
  return buffer;
}

}  // namespace lily
