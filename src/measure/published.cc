// The published figures.
#include "measure/published.h"

namespace lily {
namespace {

struct Row {
  std::string_view mechanism;
  SweepKind kind;
  int length;
  double per_cent;
};

constexpr Row kRows[] = {
    {"dequantise_in_tile", SweepKind::kPrefill, 512, 77.4},
    {"route_on_device", SweepKind::kPrefill, 512, 89.0},
    {"adaptive_tiles", SweepKind::kPrefill, 2048, 13.2},
    {"register_state", SweepKind::kPrefill, 2048, 5.6},
    {"coalesced_kv", SweepKind::kDecode, 3840, 2.1},
    {"packed_attention", SweepKind::kDecode, 32768, 23.8},
    {"block_attention", SweepKind::kDecode, 32768, 7.7},
    {"block_attention", SweepKind::kDecode, 65536, 27.4},
    {"block_attention", SweepKind::kDecode, 131072, 40.2},
};

}  // namespace

std::optional<double> published_worth(std::string_view mechanism, const SweepPoint& point) {
  for (const Row& row : kRows) {
    if (row.mechanism == mechanism && row.kind == point.kind && row.length == point.length)
      return row.per_cent;
  }
  return std::nullopt;
}

}  // namespace lily
