// Checkpoints made of random numbers in exactly the format of the real ones: for measuring speed and memory at full size
// where the real weights are not at hand. They answer nonsense, at the right cost, with activations of a sane size.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/file.h"
#include "base/result.h"

namespace lily {

struct SynthOptions {
  std::string spec = "35b";   // "35b" (Qwen3.6-35B-A3B) or "pocket"
  int layers = 0;             // 0: as many as the spec has. Every fourth attends.
  std::uint64_t seed = 0;     // The same seed gives the same bytes.
  Path out;                   // A folder that is empty or does not exist yet.
  Path tokenizer_folder = {}; // tokenizer.json and its companions are copied from here, and its end tokens are used.
  std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)> progress = {};
};

// Writes config.json, generation_config.json, the index and shards of at most 5 GiB with their tensors in hash order and
// their data at an odd offset. kInvalidArgument: unknown spec, layers out of range, a folder with files in it. kNoSpace
// before anything is written when the disk cannot hold it.
Result<void> write_synthetic_checkpoint(const SynthOptions& options);

}  // namespace lily
