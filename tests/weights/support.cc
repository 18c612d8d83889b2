// See support.h.
#include "tests/weights/support.h"

#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/bf16.h"
#include "base/random.h"

namespace lily::test {
namespace {

namespace fs = std::filesystem;

std::uint32_t draw(std::uint64_t seed, std::uint64_t at) {
  return philox4x32({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), 7, 7},
                    {static_cast<std::uint32_t>(seed), 0})[0];
}

std::string random_codes(std::uint64_t seed, std::size_t bytes) {
  std::string out(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(draw(seed, i));
  return out;
}

std::string bf16_values(std::uint64_t seed, std::size_t n, float middle, float spread) {
  std::string out(2 * n, '\0');
  for (std::size_t i = 0; i < n; ++i) {
    const float unit = static_cast<float>(draw(seed, i) >> 8) * 0x1p-24f;
    const Bf16 value = float_to_bf16(middle + spread * (2.0f * unit - 1.0f));
    std::memcpy(out.data() + 2 * i, &value, 2);
  }
  return out;
}

std::size_t product(const std::vector<std::int64_t>& shape) {
  std::size_t n = 1;
  for (const auto dim : shape) n *= static_cast<std::size_t>(dim);
  return n;
}

nlohmann::ordered_json tiny_config() {
  nlohmann::ordered_json text = {
      {"attention_bias", false}, {"attn_output_gate", true}, {"eos_token_id", 30}, {"full_attention_interval", 4},
      {"head_dim", 256}, {"hidden_act", "silu"}, {"hidden_size", 64}, {"linear_conv_kernel_dim", 4},
      {"linear_key_head_dim", 128}, {"linear_num_key_heads", 1}, {"linear_num_value_heads", 2},
      {"linear_value_head_dim", 128}, {"mamba_ssm_dtype", "float32"}, {"max_position_embeddings", 1024},
      {"model_type", "qwen3_5_moe_text"}, {"moe_intermediate_size", 64}, {"num_attention_heads", 2}, {"num_experts", 4},
      {"num_experts_per_tok", 2}, {"num_hidden_layers", 4}, {"num_key_value_heads", 1}, {"partial_rotary_factor", 0.25},
      {"rms_norm_eps", 1e-6}, {"shared_expert_intermediate_size", 64}, {"tie_word_embeddings", false}, {"vocab_size", 32}};
  text["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 10000000}, {"partial_rotary_factor", 0.25}};
  text["layer_types"] = {"linear_attention", "linear_attention", "linear_attention", "full_attention"};
  nlohmann::ordered_json quantization = {{"group_size", 64}, {"bits", 4}, {"mode", "affine"}};
  for (int layer = 0; layer < 4; ++layer) {
    const auto at = "language_model.model.layers." + std::to_string(layer) + ".mlp.";
    quantization[at + "gate"] = {{"group_size", 64}, {"bits", 8}};
    quantization[at + "shared_expert_gate"] = {{"group_size", 64}, {"bits", 8}};
  }
  return {{"model_type", "qwen3_5_moe"},
          {"eos_token_id", {30, 31}},
          {"quantization", quantization},
          {"quantization_config", quantization},
          {"text_config", text}};
}

// Code of a weight in MLX's packing: little end first along the row.
int source_code(std::span<const std::byte> row, std::int64_t col, int bits) {
  const auto index = static_cast<std::size_t>(col);
  if (bits == 8) return std::to_integer<int>(row[index]);
  const int byte = std::to_integer<int>(row[index / 2]);
  return index % 2 ? byte >> 4 : byte & 15;
}

double bf16_at(std::span<const std::byte> values, std::size_t index) {
  Bf16 bits = 0;
  std::memcpy(&bits, values.data() + 2 * index, 2);
  return bf16_to_float(bits);
}

int interleaved_code(const std::byte* record, int r, int c, int bits) {
  const int v = c / 8, i = c % 8;
  const auto at = static_cast<std::size_t>(64 + 64 * v + 4 * r + i % 4);
  const auto nibble = [&](std::size_t byte) {
    const int value = std::to_integer<int>(record[byte]);
    return i < 4 ? value & 15 : value >> 4;
  };
  return bits == 4 ? nibble(at) : nibble(at) + 16 * nibble(at + 512);
}

}  // namespace

TempFolder::TempFolder() {
  static std::atomic<int> count = 0;
  path_ = fs::temp_directory_path() / ("lily_weights_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
  fs::remove_all(path_);
  fs::create_directories(path_);
}

TempFolder::~TempFolder() {
  std::error_code code;
  fs::remove_all(path_, code);
}

void write_text(const Path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string read_text(const Path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

TinyCheckpoint::TinyCheckpoint(std::uint64_t seed) : config(tiny_config()) {
  generation = {{"do_sample", true}, {"eos_token_id", {30, 31}}, {"temperature", 1.0}, {"top_k", 20}, {"top_p", 0.95}};
  index = {{"metadata", {{"total_size", 0}}}, {"weight_map", nlohmann::ordered_json::object()}};
  const auto parsed = parse_config(config.dump(), generation.dump());
  for (const auto& entry : manifest(*parsed)) {
    seed += 100;
    if (!entry.quantised()) {
      const bool norm = entry.name.find("norm") != std::string::npos;
      add(entry.source, {"BF16", entry.source_shape,
                         bf16_values(seed, product(entry.source_shape), norm ? 1.0f : 0.0f, 0.2f)});
      continue;
    }
    auto codes = entry.source_shape, sides = entry.source_shape;
    codes.back() = codes.back() * entry.bits / 32;
    sides.back() /= 64;
    add(entry.source + ".weight", {"U32", codes, random_codes(seed, 4 * product(codes))});
    add(entry.source + ".scales", {"BF16", sides, bf16_values(seed + 1, product(sides), 0.0f, 0.02f)});
    add(entry.source + ".biases", {"BF16", sides, bf16_values(seed + 2, product(sides), 0.0f, 0.1f)});
  }
}

TinyTensor& TinyCheckpoint::tensor(const std::string& name) {
  return shards[0].count(name) ? shards[0].at(name) : shards[1].at(name);
}

void TinyCheckpoint::remove(const std::string& name) {
  shards[0].erase(name);
  shards[1].erase(name);
  index["weight_map"].erase(name);
}

void TinyCheckpoint::add(const std::string& name, TinyTensor tensor) {
  const std::size_t shard = (shards[0].size() + shards[1].size()) % 2;
  shards[shard][name] = std::move(tensor);
  index["weight_map"][name] = shard == 0 ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors";
}

void TinyCheckpoint::write(const Path& folder) const {
  fs::create_directories(folder);
  write_text(folder / "config.json", config.dump());
  write_text(folder / "generation_config.json", generation.dump());
  write_text(folder / "model.safetensors.index.json", index.dump());
  write_text(folder / "model-00001-of-00002.safetensors", safetensors_bytes(shards[0]));
  write_text(folder / "model-00002-of-00002.safetensors", safetensors_bytes(shards[1]));
}

std::string safetensors_bytes(const std::map<std::string, TinyTensor>& tensors) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "mlx"}}}};
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const auto begin = data.size();
    data += tensor.bytes;
    header[name] = {{"data_offsets", {begin, data.size()}}, {"dtype", tensor.dtype}, {"shape", tensor.shape}};
  }
  auto text = header.dump();
  while ((8 + text.size()) % 2 == 0) text += ' ';  // Data at an odd place, as in three of the four real shards.
  return safetensors_with_header(text, data);
}

std::string safetensors_with_header(std::string_view header, std::string_view data) {
  std::uint64_t length = header.size();
  std::string out(reinterpret_cast<const char*>(&length), 8);
  out += header;
  out += data;
  return out;
}

SourceMatrix::SourceMatrix(const Checkpoint& checkpoint, const ManifestEntry& entry)
    : codes(checkpoint.find(entry.source + ".weight").bytes()),
      scales(checkpoint.find(entry.source + ".scales").bytes()),
      biases(checkpoint.find(entry.source + ".biases").bytes()),
      cols(entry.cols),
      bits(entry.bits) {}

double SourceMatrix::weight(std::int64_t row, std::int64_t col) const {
  const auto row_bytes = static_cast<std::size_t>(cols * bits / 8);
  const auto side = static_cast<std::size_t>(row * (cols / 64) + col / 64);
  const int code = source_code(codes.subspan(static_cast<std::size_t>(row) * row_bytes, row_bytes), col, bits);
  return bf16_at(scales, side) * code + bf16_at(biases, side);
}

double image_weight(const TensorView& view, WeightLayout layout, std::int64_t row, std::int64_t col) {
  const std::int64_t groups = view.cols / 64;
  if (layout == WeightLayout::kInterleaved16) {
    const std::size_t record = 64 + 512 * static_cast<std::size_t>(view.bits / 4);
    const auto* at = view.data + static_cast<std::size_t>(row / 16 * groups + col / 64) * record;
    const int r = static_cast<int>(row % 16);
    const std::span<const std::byte> sides(at, 64);
    return bf16_at(sides, static_cast<std::size_t>(r)) * interleaved_code(at, r, static_cast<int>(col % 64), view.bits) +
           bf16_at(sides, static_cast<std::size_t>(16 + r));
  }
  const auto round64 = [](std::int64_t n) { return (n + 63) / 64 * 64; };
  const std::int64_t scales = round64(view.rows * view.cols * view.bits / 8), sides = round64(view.rows * groups * 2);
  const std::span<const std::byte> bytes(view.data, view.bytes);
  const auto row_bytes = static_cast<std::size_t>(view.cols * view.bits / 8);
  const int code = source_code(bytes.subspan(static_cast<std::size_t>(row) * row_bytes, row_bytes), col, view.bits);
  const auto side = static_cast<std::size_t>(row * groups + col / 64);
  return bf16_at(bytes.subspan(static_cast<std::size_t>(scales)), side) * code +
         bf16_at(bytes.subspan(static_cast<std::size_t>(scales + sides)), side);
}

}  // namespace lily::test
