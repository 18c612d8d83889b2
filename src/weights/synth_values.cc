// See synth_values.h.
#include "weights/synth_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/bf16.h"
#include "weights/hash.h"

namespace lily {
namespace {

constexpr std::size_t kPalette = 256;  // Different scales in a matrix; a group draws one of them.

// SplitMix64 (Steele, Lea, Flood, 2014) as a function of the counter: three multiplications for eight bytes.
constexpr std::uint64_t mix(std::uint64_t key, std::uint64_t counter) {
  std::uint64_t z = key + counter * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

std::uint64_t key_of(std::uint64_t seed, std::string_view name) {
  return mix(checksum(std::as_bytes(std::span(name.data(), name.size()))), seed);
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

void fill_codes(std::uint64_t key, std::uint64_t offset, std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const std::uint64_t at = offset + done, word = mix(key, at / 8);
    const std::size_t skip = at % 8, n = std::min<std::size_t>(8 - skip, out.size() - done);
    std::byte bytes[8];
    std::memcpy(bytes, &word, 8);
    if (n == 8) {
      std::memcpy(out.data() + done, bytes, 8);
    } else {
      std::memcpy(out.data() + done, bytes + skip, n);
    }
    done += n;
  }
}

using Palette = std::array<Bf16, kPalette>;

// Scales from 0.75 to 1.25 times the one that gives the wanted deviation, a third of them negative as in real files; the
// bias puts the middle code at 0.
Palette palette(const ManifestEntry& entry, SynthPart part) {
  const double levels = std::exp2(entry.bits);
  const double gain = entry.name == "lm_head" ? 3.0 : 1.0;
  const double deviation = std::sqrt((levels * levels - 1) / 12.0);  // Of a uniform code.
  const double middle = gain / (deviation * std::sqrt(static_cast<double>(entry.cols)));
  Palette out;
  for (std::size_t i = 0; i < kPalette; ++i) {
    const double size = middle * (0.75 + 0.5 * static_cast<double>(i) / (kPalette - 1));
    const double scale = bf16_to_float(float_to_bf16(static_cast<float>(i % 3 == 0 ? -size : size)));
    out[i] = float_to_bf16(static_cast<float>(part == SynthPart::kScales ? scale : -scale * (levels - 1) / 2));
  }
  return out;
}

void fill_sides(const SynthTensor& tensor, std::uint64_t key, std::uint64_t offset, std::span<std::byte> out) {
  const Palette values = palette(*tensor.entry, tensor.part);
  for (std::size_t i = 0; i < out.size() / 2; ++i) {
    const auto pick = mix(key, offset / 2 + i) & (kPalette - 1);
    std::memcpy(out.data() + 2 * i, &values[pick], 2);
  }
}

struct Spread {
  float low, high;
};

Spread spread_of(std::string_view name) {
  if (ends_with(name, ".A_log")) return {0.0f, 2.75f};       // Rates 1 to 16.
  if (ends_with(name, ".dt_bias")) return {-6.9f, -2.25f};   // softplus: steps 0.001 to 0.1.
  if (ends_with(name, ".conv1d")) return {-0.8f, 0.8f};
  return {0.9f, 1.1f};                                       // Norms.
}

void fill_floats(const SynthTensor& tensor, std::uint64_t key, std::uint64_t offset, std::span<std::byte> out) {
  const Spread spread = spread_of(tensor.entry->name);
  for (std::size_t i = 0; i < out.size() / 2; ++i) {
    const float unit = static_cast<float>(mix(key, offset / 2 + i) >> 40) * 0x1p-24f;
    const Bf16 value = float_to_bf16(spread.low + (spread.high - spread.low) * unit);
    std::memcpy(out.data() + 2 * i, &value, 2);
  }
}

std::uint64_t count(const std::vector<std::int64_t>& shape) {
  std::uint64_t n = 1;
  for (const auto dim : shape) n *= static_cast<std::uint64_t>(dim);
  return n;
}

}  // namespace

std::vector<SynthTensor> synth_tensors(const ManifestEntry& entry) {
  if (!entry.quantised()) {
    return {{entry.source, SynthPart::kFloats, &entry, entry.source_shape, 2 * count(entry.source_shape)}};
  }
  auto codes = entry.source_shape, sides = entry.source_shape;
  codes.back() = codes.back() * entry.bits / 32;
  sides.back() /= kQuantGroup;
  return {{entry.source + ".weight", SynthPart::kCodes, &entry, codes, 4 * count(codes)},
          {entry.source + ".scales", SynthPart::kScales, &entry, sides, 2 * count(sides)},
          {entry.source + ".biases", SynthPart::kBiases, &entry, sides, 2 * count(sides)}};
}

void synth_fill(const SynthTensor& tensor, std::uint64_t seed, std::uint64_t offset, std::span<std::byte> out) {
  const bool is_codes = tensor.part == SynthPart::kCodes;
  const auto key = key_of(seed, tensor.entry->source + (is_codes ? "/codes" : ""));  // Scales and biases share one.
  if (is_codes) return fill_codes(key, offset, out);
  if (tensor.part == SynthPart::kFloats) return fill_floats(tensor, key, offset, out);
  fill_sides(tensor, key, offset, out);
}

}  // namespace lily
