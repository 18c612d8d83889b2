// The image of a synthetic checkpoint, made in memory without a checkpoint: for measuring at any size where no files are wanted.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "spec/layout.h"
#include "spec/model_spec.h"
#include "weights/load.h"

namespace lily {

// Byte for byte what packing the checkpoint that write_synthetic_checkpoint() makes of this spec and seed gives. kNoMemory where the
// image cannot be held.
Result<LoadedWeights> synthetic_weights(const ModelSpec& spec, WeightLayout layout, std::uint64_t seed);

}  // namespace lily
