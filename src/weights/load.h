// From a checkpoint folder to weights in memory: finds the packed image, or packs it, and maps it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "spec/layout.h"
#include "weights/config.h"
#include "weights/image.h"

namespace lily {

struct PackProgress {
  enum class Phase {
    kWaiting,   // Another process packs the same image.
    kChecking,  // Verifying the finished part of an interrupted packing.
    kPacking,
    kUploading,  // To memory of the device's own.
  };
  Phase phase = Phase::kPacking;
  std::uint64_t done_bytes = 0, total_bytes = 0;
};

struct LoadOptions {
  WeightLayout layout = WeightLayout::kInterleaved16;
  bool pack = true;   // false: the image is made in memory and nothing is written.
  Path cache_folder = {};  // Where images go when the model's folder cannot be written; empty: env::cache_folder().
  std::function<void(const PackProgress&)> progress = {};  // Called on the caller's thread.
};

struct LoadedWeights {
  CheckpointConfig config;
  WeightImage image;
  Path image_path;    // Empty when the image is in memory only.
  bool packed = false;  // This call made the image; false: it was found.
};

// `folder` holds config.json and safetensors files in MLX's format. An image is used when its format, size, header checksum,
// manifest and source fingerprint are right; else it is made anew. Errors: whatever read_config, Checkpoint::open,
// check_source and packing say; kNoSpace, before a byte is written when it can be foreseen; kPermission when neither the
// model's folder nor the cache can be written.
Result<LoadedWeights> load_weights(const Path& folder, const LoadOptions& options);
// The same for a caller that has read the config already.
Result<LoadedWeights> load_weights(const Path& folder, CheckpointConfig config, const LoadOptions& options);

// Where an image of this folder and layout lies or would lie: beside the model, then in the cache.
struct ImagePlaces {
  Path beside, cached;  // cached is empty when there is no cache folder.
};
ImagePlaces image_places(const Path& folder, WeightLayout layout, const Path& cache_folder);

struct VerifyReport {
  Path image;
  std::uint64_t bytes = 0, blocks = 0;
  std::vector<std::uint64_t> bad_blocks;
  std::vector<std::string> bad_tensors;  // Tensors that touch a bad block.
  bool source_matches = false;           // The image was made from the files as they are now.

  bool good() const { return bad_blocks.empty() && source_matches; }
};

// Reads the whole image and recomputes every block's checksum; compares its table with the source's manifest and
// fingerprint. kNotFound: there is no image yet.
Result<VerifyReport> verify_image(const Path& folder, const LoadOptions& options);

}  // namespace lily
