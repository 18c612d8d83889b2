// What a checkpoint's config.json and generation_config.json say, checked field by field against what Lily's kernels do.
// Another family, another quantisation or a size out of range is refused by name, with what was found and what is supported.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/result.h"
#include "spec/model_spec.h"

namespace lily {

inline constexpr std::size_t kMaxConfigBytes = 16u << 20;
// What messages recommend to a user who brought something else.
inline constexpr std::string_view kWhatToGet =
    "get a folder in MLX's 4-bit format, such as mlx-community/Qwen3.6-35B-A3B-4bit";

// Bits of each module: the file's default and the modules that differ. MLX affine, groups of kQuantGroup.
struct QuantTable {
  int default_bits = 4;                  // 4 or 8
  std::map<std::string, int> overrides;  // canonical module name (manifest.h) -> 4 or 8

  int bits_of(const std::string& module) const {
    const auto found = overrides.find(module);
    return found == overrides.end() ? default_bits : found->second;
  }
};

// The checkpoint's own wishes for sampling; absent means that its file does not say.
struct GenerationDefaults {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int> top_k;
  std::optional<bool> do_sample;
};

struct CheckpointConfig {
  ModelSpec spec;
  QuantTable quant;
  GenerationDefaults generation;
  int n_draft_layers = 0;  // mtp_num_hidden_layers: a wish; whether the tensors are there is another matter
};

// config_json must be the text of config.json; generation_config_json may be empty (the file is absent).
// kCorrupt: not JSON or of the wrong types. kUnsupported: JSON, but not what Lily runs.
Result<CheckpointConfig> parse_config(std::string_view config_json, std::string_view generation_config_json);

// Reads both files of a checkpoint folder. Also refuses, by name, what is no such folder: a GGUF file, a folder of GGUF
// files, a single safetensors file.
Result<CheckpointConfig> read_config(const Path& folder);

// "language_model.model.layers.0.mlp.gate" -> "layers.0.mlp.gate", "language_model.lm_head" -> "lm_head"; names without
// the prefixes stay as they are.
std::string_view canonical_name(std::string_view source_name);

}  // namespace lily
