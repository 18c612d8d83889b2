// The rows of a pass cut into tiles that never cross a segment: the unit of work of the steps that
// know sequences.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/args.h"

namespace lily::cpu {

struct RowTile {
  const Segment* segment;
  std::int64_t first;  // Of the tile's rows, counted from the segment's first.
  std::int64_t n_rows;
};

class RowTiles {
 public:
  RowTiles(const PassControl& control, int tile_rows) : control_(control), tile_rows_(tile_rows) {
    for (int s = 0; s < control.n_segments; ++s) count_ += tiles_of(control.segments[s]);
  }
  std::int64_t count() const { return count_; }
  // Tile `index` of 0 .. count() - 1; walks over at most kMaxSegments segments.
  RowTile at(std::int64_t index) const {
    const Segment* segment = control_.segments;
    while (index >= tiles_of(*segment)) index -= tiles_of(*segment++);
    const std::int64_t first = index * tile_rows_;
    return {segment, first, std::min<std::int64_t>(segment->n_rows - first, tile_rows_)};
  }

 private:
  std::int64_t tiles_of(const Segment& segment) const {
    return (segment.n_rows + tile_rows_ - 1) / tile_rows_;
  }

  const PassControl& control_;
  std::int64_t tile_rows_;
  std::int64_t count_ = 0;
};

}  // namespace lily::cpu
