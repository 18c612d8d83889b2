// Which of the kernels on tiles a pass takes: their sizes and multipliers are mechanisms.
#pragma once

#include <string>

#include "backend/gpu/recorder.h"

namespace lily::gpu {

struct TileForm {
  int rows, cols;    // Of a tile of linear_tile.cc; experts_tile.cc has groups of so many columns.
  int block_rows;    // Of one expert at most.
  std::string name;  // What the kernels' names end in.
};

inline TileForm tile_form(const Recorder& to) {
  const Mechanisms& on = to.mechanisms();
  const int rows = on.large_tiles ? 64 : 32;
  return {
      .rows = rows,
      .cols = 2 * rows,
      .block_rows = on.adaptive_tiles ? rows : rows / 2,
      .name = std::string(on.large_tiles ? "_large" : "").append(on.matrix_units ? "" : "_plain")};
}

}  // namespace lily::gpu
