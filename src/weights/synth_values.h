// Random contents of one tensor, any part of it on demand: byte i is a function of (seed, tensor, i).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "weights/manifest.h"

namespace lily {

enum class SynthPart { kCodes, kScales, kBiases, kFloats };

struct SynthTensor {
  std::string name;                 // In the checkpoint, for example "language_model.lm_head.scales".
  SynthPart part;
  const ManifestEntry* entry;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes;
};

// The tensors of one manifest entry: codes, scales, biases, or one of bf16.
std::vector<SynthTensor> synth_tensors(const ManifestEntry& entry);

// Bytes [offset, offset + out.size()); offset and size are even. Weights have mean 0 and a deviation of 1 / sqrt(cols),
// times 3 in lm_head, so that a normed input gives outputs near 1; norms lie near 1, decays where trained ones lie.
void synth_fill(const SynthTensor& tensor, std::uint64_t seed, std::uint64_t offset, std::span<std::byte> out);

}  // namespace lily
