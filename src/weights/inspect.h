// What a checkpoint folder is, for people: family, sizes, bytes by part, what is left out, whether it is packed, and the
// memory that it needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "spec/layout.h"
#include "weights/config.h"

namespace lily {

struct PartSize {
  std::string name;                 // "delta projections", "routed experts", "language head", ...
  std::uint64_t parameters = 0;
  std::uint64_t source_bytes = 0;   // In the checkpoint.
};

struct LeftOut {
  std::string name;                 // "vision tower", "draft head", or a file's name
  std::uint64_t tensors = 0, bytes = 0;
};

struct ImageState {
  WeightLayout layout;
  Path path;
  std::uint64_t bytes = 0;          // Of the file; 0: there is none.
  std::string problem;              // Empty: usable as it is. Else why it would be packed again.
};

struct CheckpointSummary {
  CheckpointConfig config;
  std::vector<PartSize> parts;      // Tile the language model, in the order of a pass.
  std::vector<LeftOut> left_out;
  std::vector<ImageState> images;   // One for each layout.
  std::uint64_t parameters = 0, active_parameters = 0;  // Of the language model; active: touched by one token, embedding
                                                        // counted as one row.
  std::uint64_t source_bytes = 0;   // Tensors of the language model in the checkpoint.
  std::uint64_t image_bytes = 0;    // Weights in memory, layout kInterleaved16.
  std::uint64_t state_bytes = 0;    // Recurrent state of one sequence: a slot of spec/state_sizes.h.
  std::uint64_t kv_bytes_per_token = 0;  // bf16
};

// Reads headers only. Errors as load_weights has them.
Result<CheckpointSummary> inspect(const Path& folder, const Path& cache_folder = {});

}  // namespace lily
