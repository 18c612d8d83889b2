// Everything that the model needs of a checkpoint, by name, in the order in which a pass reads it; and the check that a
// checkpoint has exactly that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "weights/checkpoint.h"
#include "weights/config.h"

namespace lily {

// One tensor of the model. Its name is the source's module without "language_model." and "model.", for example
// "layers.0.linear_attn.in_proj_qkv", "layers.0.linear_attn.A_log", "embed_tokens", "lm_head".
struct ManifestEntry {
  std::string name;
  std::string source;     // Quantised: module in the checkpoint, with .weight, .scales and .biases. Else: the tensor.
  std::int64_t rows = 1;  // A vector is one row. Experts follow one another: rows = E * rows of an expert.
  std::int64_t cols = 0;
  int bits = 0;           // 4 or 8; 0: f32, whatever the source's float type was
  std::vector<std::int64_t> source_shape;  // Of the logical matrix or vector: [E, F, D], [V, D], [conv_dim, 4, 1], [D]

  bool quantised() const { return bits != 0; }
};

std::vector<ManifestEntry> manifest(const CheckpointConfig& config);

// xxh3 over names, shapes and bits: equal for configurations that pack to the same image.
std::uint64_t manifest_fingerprint(const std::vector<ManifestEntry>& entries);

// Missing and surplus tensors, wrong dtypes and shapes: up to kMaxProblems are listed in one message, then "and N more".
// vision_tower.*, mtp.* and language_model.mtp.* are no surplus. Also refuses unconverted checkpoints (norms near 0
// instead of near 1, convolution not transposed), which would load and answer nonsense.
inline constexpr std::size_t kMaxProblems = 8;
Result<void> check_source(const Checkpoint& checkpoint, const std::vector<ManifestEntry>& entries);

// A tensor that text does not need: vision tower or draft head.
bool is_left_out(std::string_view source_name);

}  // namespace lily
