// Checkpoints that are broken, foreign or half downloaded: each is refused with a message that names the thing, what was
// found and what was expected. docs/BROKEN_INPUTS.md shows the same rows to readers.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "tests/weights/support.h"
#include "weights/load.h"

namespace lily::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const std::string kLayer0 = "language_model.model.layers.0.";
const std::string kShard1 = "model-00001-of-00002.safetensors";
const std::string kShard2 = "model-00002-of-00002.safetensors";
const std::string kIndex = "model.safetensors.index.json";

struct Broken {
  const char* input;                                 // What is wrong, as the docs name it.
  std::vector<std::string> says;                     // Parts of the message.
  std::function<void(TinyCheckpoint&)> before = {};  // Spoils the checkpoint,
  std::function<void(const Path&)> after = {};       // or its files.
};

// --- config.json ---------------------------------------------------------------------------------------------------------

std::function<void(TinyCheckpoint&)> text_field(const char* name, Json value) {
  return [=](TinyCheckpoint& tiny) { tiny.config["text_config"][name] = value; };
}

std::function<void(TinyCheckpoint&)> no_text_field(const char* name) {
  return [=](TinyCheckpoint& tiny) { tiny.config["text_config"].erase(name); };
}

std::function<void(TinyCheckpoint&)> rope(Json value) { return text_field("rope_parameters", std::move(value)); }

std::function<void(TinyCheckpoint&)> quantization(Json value) {
  return [=](TinyCheckpoint& tiny) {
    tiny.config.erase("quantization_config");
    tiny.config["quantization"] = value;
  };
}

std::function<void(TinyCheckpoint&)> method(const char* name) {
  return [=](TinyCheckpoint& tiny) {
    tiny.config.erase("quantization");
    tiny.config["quantization_config"] = {{"quant_method", name}, {"bits", 4}, {"group_size", 64}};
  };
}

std::function<void(const Path&)> config_text(std::string text) {
  return [=](const Path& folder) { write_text(folder / "config.json", text); };
}

std::vector<Broken> broken_configs() {
  return {
      {"config.json missing", {"no config.json", "mlx-community"}, {}, [](auto& f) { fs::remove(f / "config.json"); }},
      {"config.json empty", {"config.json: not JSON at byte"}, {}, config_text("")},
      {"config.json cut short", {"config.json: not JSON at byte"}, {}, config_text("{\"model_type\": \"qwen3_5_moe\", ")},
      {"config.json a list", {"config.json: found a list of 0, expected an object"}, {}, config_text("[]")},
      {"config.json nested 100,000 deep", {"config.json: nested deeper than 32 levels"}, {}, config_text(std::string(100000, '['))},
      {"config.json with a repeated key", {"config.json: key 'a' appears twice"}, {}, config_text(R"({"a": 1, "a": 2})")},
      {"another family (llama)", {"model_type: found 'llama', another family", "qwen3_5_moe"}, [](auto& t) { t.config["model_type"] = "llama"; }},
      {"the dense sibling (qwen3_5)", {"model_type: found 'qwen3_5', another family"}, [](auto& t) { t.config["model_type"] = "qwen3_5"; }},
      {"the older sibling (qwen3_next)", {"model_type: found 'qwen3_next'"}, [](auto& t) { t.config["model_type"] = "qwen3_next"; }},
      {"model_type absent", {"model_type: found nothing"}, [](auto& t) { t.config.erase("model_type"); }},
      {"text_config absent", {"text_config: found nothing, expected an object"}, [](auto& t) { t.config.erase("text_config"); }},
      {"hidden_size absent", {"text_config.hidden_size: found nothing, supported: a whole number"}, no_text_field("hidden_size")},
      {"hidden_size a string", {"text_config.hidden_size: found '64'"}, text_field("hidden_size", "64")},
      {"hidden_size not a multiple of 64", {"text_config.hidden_size: found 100", "a multiple of 64"}, text_field("hidden_size", 100)},
      {"hidden_size huge", {"text_config.hidden_size: found 1000000000000"}, text_field("hidden_size", 1000000000000)},
      {"negative layer count", {"text_config.num_hidden_layers: found -1"}, text_field("num_hidden_layers", -1)},
      {"layer_types of another length", {"text_config.layer_types: found a list of 4", "num_hidden_layers (5)"}, text_field("num_hidden_layers", 5)},
      {"unknown layer type", {"text_config.layer_types[1]: found 'mamba'"}, text_field("layer_types", {"linear_attention", "mamba", "linear_attention", "full_attention"})},
      {"head_dim 128", {"text_config.head_dim: found 128, supported: 256"}, text_field("head_dim", 128)},
      {"delta head size 64", {"text_config.linear_key_head_dim: found 64, supported: 128"}, text_field("linear_key_head_dim", 64)},
      {"convolution of 3 taps", {"text_config.linear_conv_kernel_dim: found 3, supported: 4"}, text_field("linear_conv_kernel_dim", 3)},
      {"query heads not shared evenly", {"text_config.num_key_value_heads: found 2", "a divisor of num_attention_heads (3)"},
       [](auto& t) { t.config["text_config"]["num_attention_heads"] = 3; t.config["text_config"]["num_key_value_heads"] = 2; }},
      {"more experts chosen than there are", {"text_config.num_experts_per_tok: found 9, supported: at most num_experts (4)"}, text_field("num_experts_per_tok", 9)},
      {"513 experts", {"text_config.num_experts: found 513"}, text_field("num_experts", 513)},
      {"attention with biases", {"text_config.attention_bias: found true, supported: false"}, text_field("attention_bias", true)},
      {"no attention gate", {"text_config.attn_output_gate: found false, supported: true"}, text_field("attn_output_gate", false)},
      {"another activation", {"text_config.hidden_act: found 'gelu', supported: 'silu'"}, text_field("hidden_act", "gelu")},
      {"unknown gate of the delta layers", {"text_config.output_gate_type: found 'tanh', supported: 'swish' or 'sigmoid'"}, text_field("output_gate_type", "tanh")},
      {"delta state in bfloat16", {"text_config.mamba_ssm_dtype: found 'bfloat16', supported: 'float32'"}, text_field("mamba_ssm_dtype", "bfloat16")},
      {"router without renormalisation", {"text_config.norm_topk_prob: found false, supported: true"}, text_field("norm_topk_prob", false)},
      {"tied embeddings", {"tie_word_embeddings: found true, supported: false"}, [](auto& t) { t.config["tie_word_embeddings"] = true; }},
      {"sliding window", {"text_config.sliding_window: found 4096"}, text_field("sliding_window", 4096)},
      {"dense layers among the experts", {"text_config.mlp_only_layers: found a list of 1, supported: an empty list"}, text_field("mlp_only_layers", Json::array({0}))},
      {"other share of rotary dims", {"partial_rotary_factor: found 0.5, supported: 0.25"}, text_field("partial_rotary_factor", 0.5)},
      {"rope_parameters absent", {"text_config.rope_parameters: found nothing"}, no_text_field("rope_parameters")},
      {"rope of another type", {"rope_parameters.rope_type: found 'llama3', supported: 'default' or 'yarn'"}, rope({{"rope_type", "llama3"}, {"rope_theta", 1e7}})},
      {"YaRN without its original context", {"rope_parameters.original_max_position_embeddings: found nothing"}, rope({{"rope_type", "yarn"}, {"rope_theta", 1e7}, {"factor", 4}})},
      {"YaRN with a magnitude of its own", {"rope_parameters.attention_factor: found 1.5"},
       rope({{"rope_type", "yarn"}, {"rope_theta", 1e7}, {"factor", 4}, {"original_max_position_embeddings", 512}, {"attention_factor", 1.5}})},
      {"context of two million", {"text_config.max_position_embeddings: found 2097152"}, text_field("max_position_embeddings", 2097152)},
      {"vocabulary not a multiple of 16", {"text_config.vocab_size: found 33"}, text_field("vocab_size", 33)},
      {"end token beyond the vocabulary", {"generation_config.json: eos_token_id: found 99", "vocab_size (32)"}, [](auto& t) { t.generation["eos_token_id"] = {99}; }},
      {"no end token anywhere", {"eos_token_id: found nothing"},
       [](auto& t) { t.generation.erase("eos_token_id"); t.config.erase("eos_token_id"); t.config["text_config"].erase("eos_token_id"); }},
      {"generation_config.json not JSON", {"generation_config.json: not JSON"}, {}, [](auto& f) { write_text(f / "generation_config.json", "nope"); }},
      {"generation_config.json empty", {"generation_config.json: found an empty file"}, {}, [](auto& f) { write_text(f / "generation_config.json", ""); }},
      {"temperature over its bound", {"generation_config.json: temperature: found 101, supported: a number from 0 to 100"}, [](auto& t) { t.generation["temperature"] = 101; }},
      {"top_p of 0", {"generation_config.json: top_p: found 0, supported: a number from 1e-09 to 1"}, [](auto& t) { t.generation["top_p"] = 0; }},
      {"repetition penalty of 50", {"generation_config.json: repetition_penalty: found 50, supported: a number from 0.001 to 10"}, [](auto& t) { t.generation["repetition_penalty"] = 50; }},
      {"temperature a string", {"generation_config.json: temperature: found 'hot'"}, [](auto& t) { t.generation["temperature"] = "hot"; }},
  };
}

std::vector<Broken> broken_quantisations() {
  return {
      {"not quantised", {"the weights are not quantised", "mlx-community"}, [](auto& t) { t.config.erase("quantization"); t.config.erase("quantization_config"); }},
      {"AWQ", {"quant_method: found 'awq'", "MLX affine", "mlx-community"}, method("awq")},
      {"GPTQ", {"quant_method: found 'gptq'"}, method("gptq")},
      {"FP8", {"quant_method: found 'fp8'"}, method("fp8")},
      {"MXFP4", {"quantization.mode: found 'mxfp4', supported: 'affine'"}, quantization({{"group_size", 64}, {"bits", 4}, {"mode", "mxfp4"}})},
      {"groups of 32", {"quantization.group_size: found 32, supported: 64"}, quantization({{"group_size", 32}, {"bits", 4}})},
      {"3 bits", {"quantization.bits: found 3, supported: 4 or 8"}, quantization({{"group_size", 64}, {"bits", 3}})},
      {"one module of 6 bits", {"['lm_head'].bits: found 6, supported: 4 or 8"}, quantization({{"group_size", 64}, {"bits", 4}, {"lm_head", {{"group_size", 64}, {"bits", 6}}}})},
      {"one module not quantised", {"['language_model.lm_head']: found false"}, quantization({{"group_size", 64}, {"bits", 4}, {"language_model.lm_head", false}})},
      {"quantization and quantization_config differ", {"quantization and quantization_config contradict each other"}, [](auto& t) { t.config["quantization_config"]["bits"] = 8; }},
      {"bits in config.json that the tensors do not have", {"tensor 'language_model.model.layers.0.mlp.gate.weight': found U32 [4, 16], expected U32 [4, 8]"},
       quantization({{"group_size", 64}, {"bits", 4}})},
  };
}

// --- Files and the index -------------------------------------------------------------------------------------------------

std::function<void(const Path&)> cut(const std::string& file, std::size_t bytes) {
  return [=](const Path& folder) {
    const auto text = read_text(folder / file);
    write_text(folder / file, text.substr(0, text.size() - std::min(bytes, text.size())));
  };
}

std::function<void(const Path&)> shard_text(std::string text) {
  return [=](const Path& folder) { write_text(folder / kShard1, text); };
}

std::function<void(const Path&)> shard_header(const char* header, const char* data) {
  return shard_text(safetensors_with_header(header, data));
}

std::function<void(TinyCheckpoint&)> mapped(const std::string& tensor, const char* shard) {
  return [=](TinyCheckpoint& tiny) { tiny.index["weight_map"][tensor] = shard; };
}

std::vector<Broken> broken_files() {
  return {
      {"folder missing", {"no such folder"}, {}, [](auto& f) { fs::remove_all(f); }},
      {"a file instead of a folder", {"found a file, expected the folder"}, {}, [](auto& f) { fs::remove_all(f); write_text(f, "x"); }},
      {"a GGUF file", {"found GGUF", "mlx-community"}, {}, [](auto& f) { fs::remove_all(f); write_text(f, "GGUF\x03"); }},
      {"a folder of GGUF files", {"model-Q4_K_M.gguf: found GGUF"}, {}, [](auto& f) { fs::remove(f / "config.json"); write_text(f / "model-Q4_K_M.gguf", "GGUF"); }},
      {"config.json a folder", {"config.json: not a regular file"}, {}, [](auto& f) { fs::remove(f / "config.json"); fs::create_directory(f / "config.json"); }},
      {"no weights at all", {"neither model.safetensors.index.json nor model.safetensors"}, {}, [](auto& f) { fs::remove(f / kIndex); }},
      {"index cut short", {"model.safetensors.index.json: not JSON at byte"}, {}, cut(kIndex, 10)},
      {"index without weight_map", {"weight_map: found nothing"}, [](auto& t) { t.index.erase("weight_map"); }},
      {"index naming no shard", {"weight_map names 0 shards"}, [](auto& t) { t.index["weight_map"] = Json::object(); }},
      {"shard missing", {"shard model-00002-of-00002.safetensors is missing", "download may be incomplete"}, {}, [](auto& f) { fs::remove(f / kShard2); }},
      {"shard name with ../", {"weight_map['x']: found '../secret.safetensors', expected the plain name"}, mapped("x", "../secret.safetensors")},
      {"absolute shard name", {"found '/etc/x.safetensors', expected the plain name"}, mapped("x", "/etc/x.safetensors")},
      {"shard name a number", {"weight_map['x']: found 7"}, [](auto& t) { t.index["weight_map"]["x"] = 7; }},
      {"tensor in another shard than listed", {"tensor 'language_model.lm_head.weight' lies in this file, but", "says"},
       [](auto& t) { auto& home = t.index["weight_map"]["language_model.lm_head.weight"]; home = home == kShard1 ? kShard2 : kShard1; }},
      {"tensor listed but nowhere", {"tensor 'ghost' is not in this file"}, mapped("ghost", "model-00001-of-00002.safetensors")},
      {"tensor present but not listed", {"lies in this file, but", "does not list it"}, [](auto& t) { t.index["weight_map"].erase("language_model.lm_head.weight"); }},
      {"shard empty", {"0 bytes, too short for a safetensors header"}, {}, shard_text("")},
      {"shard truncated in its data", {"it is truncated, the download may be incomplete"}, {}, cut(kShard1, 1)},
      {"shard truncated in its header", {"header of", "in a file of", "download may be incomplete"}, {}, [](auto& f) { write_text(f / kShard1, read_text(f / kShard1).substr(0, 100)); }},
      {"header length huge", {"header of 18446744073709551615 bytes, expected 1 to"}, {}, shard_text(std::string(8, '\xff') + "{}")},
      {"header length 0", {"header of 0 bytes"}, {}, shard_text(std::string(16, '\0'))},
      {"header not JSON", {"header: not JSON at byte"}, {}, shard_header("{{{", "")},
      {"header a list", {"header: found a list of 0"}, {}, shard_header("[]", "")},
      {"header nested deep", {"header: nested deeper than 32 levels"}, {}, shard_header(R"({"a":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[)", "")},
      {"tensor name twice", {"header: key 'a' appears twice"}, {},
       shard_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "xy")},
      {"tensors that overlap", {"tensor 'b': overlaps tensor 'a'"}, {},
       shard_header(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})", "wxyz")},
      {"hole between tensors", {"tensor 'b': 1 bytes of hole before it"}, {},
       shard_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})", "xyz")},
      {"bytes after the last tensor", {"5 bytes after the last tensor"}, {}, shard_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x-more")},
      {"offsets that run backwards", {"data_offsets [3, 1] run backwards"}, {}, shard_header(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[3,1]}})", "xyz")},
      {"negative offset", {"tensor 'a': expected dtype, shape and data_offsets"}, {}, shard_header(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[-1,1]}})", "x")},
      {"size that contradicts the shape", {"tensor 'a': 3 bytes, expected 4 for BF16 [2]"}, {}, shard_header(R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,3]}})", "xyz")},
      {"shape whose product overflows", {"expected more than 2^62"}, {}, shard_header(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]}})", "")},
      {"unknown dtype", {"tensor 'a': unknown dtype 'Q4_0'"}, {}, shard_header(R"({"a":{"dtype":"Q4_0","shape":[1],"data_offsets":[0,1]}})", "x")},
      {"tensor without a shape", {"tensor 'a': expected dtype, shape and data_offsets"}, {}, shard_header(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", "x")},
      {"a GGUF file named .safetensors", {"found a GGUF file"}, {}, shard_text("GGUF\x03\x01\x01\x01\x01\x01")},
      {"a Git LFS pointer", {"found a Git LFS pointer", "git lfs pull"}, {}, shard_text("version https://git-lfs.github.com/spec/v1\noid sha256:0")},
      {"a PyTorch file named .safetensors", {"found a PyTorch file"}, {}, shard_text("PK\x03\x04 and so on")},
  };
}

// --- Tensors -------------------------------------------------------------------------------------------------------------

void set_bf16(TinyTensor& tensor, std::size_t index, std::uint16_t bits) { std::memcpy(tensor.bytes.data() + 2 * index, &bits, 2); }

// Norms as the original checkpoint stores them: weights around 0.
void unshift_norms(TinyCheckpoint& tiny) {
  auto& norm = tiny.tensor(kLayer0 + "input_layernorm.weight");
  for (std::size_t i = 0; i < norm.bytes.size() / 2; ++i) set_bf16(norm, i, 0x3c80);  // 0.0156
}

std::vector<Broken> broken_tensors() {
  return {
      {"tensor missing", {"missing tensor '" + kLayer0 + "linear_attn.A_log'", "BF16, F16 or F32 [2]"}, [](auto& t) { t.remove(kLayer0 + "linear_attn.A_log"); }},
      {"biases missing", {"missing tensor '" + kLayer0 + "mlp.gate.biases', expected BF16 [4, 1]"}, [](auto& t) { t.remove(kLayer0 + "mlp.gate.biases"); }},
      {"unknown tensor", {"unknown tensor 'language_model.model.layers.9.foo' (U8 [2])"}, [](auto& t) { t.add("language_model.model.layers.9.foo", {"U8", {2}, "ab"}); }},
      {"tensor of another shape", {"tensor '" + kLayer0 + "linear_attn.norm.weight': found BF16 [2, 64], expected BF16, F16 or F32 [128]"}, [](auto& t) { t.tensor(kLayer0 + "linear_attn.norm.weight").shape = {2, 64}; }},
      {"codes of another type", {"in_proj_z.weight': found I32 [256, 8], expected U32 [256, 8]"}, [](auto& t) { t.tensor(kLayer0 + "linear_attn.in_proj_z.weight").dtype = "I32"; }},
      {"scales in F16", {"in_proj_z.scales': found F16 [256, 1], expected BF16 [256, 1]"}, [](auto& t) { t.tensor(kLayer0 + "linear_attn.in_proj_z.scales").dtype = "F16"; }},
      {"norm of whole numbers", {"found I16 [64], expected BF16, F16 or F32 [64]"}, [](auto& t) { t.tensor("language_model.model.norm.weight").dtype = "I16"; }},
      {"one expert too few", {"switch_mlp.up_proj.weight': found U32 [3, 64, 8], expected U32 [4, 64, 8]"},
       [](auto& t) { auto& w = t.tensor(kLayer0 + "mlp.switch_mlp.up_proj.weight"); w.shape[0] = 3; w.bytes.resize(w.bytes.size() / 4 * 3); }},
      {"names of the original checkpoint", {"tensor 'model.language_model.norm.weight'", "original, unconverted checkpoint"}, [](auto& t) { t.add("model.language_model.norm.weight", {"U8", {1}, "a"}); }},
      {"convolution as in the original checkpoint", {"conv1d.weight' is [512, 1, 4]", "original, unconverted checkpoint"}, [](auto& t) { t.tensor(kLayer0 + "linear_attn.conv1d.weight").shape = {512, 1, 4}; }},
      {"norms as in the original checkpoint", {"input_layernorm.weight' has a mean of 0.016, expected 0.5 to 1.5", "original, unconverted checkpoint"}, unshift_norms},
      {"NaN in a norm", {"input_layernorm.weight': found NaN or infinity"}, [](auto& t) { set_bf16(t.tensor(kLayer0 + "input_layernorm.weight"), 3, 0x7fc0); }},
      {"infinity in A_log", {"tensor '" + kLayer0 + "linear_attn.A_log': found NaN or infinity at index 1"}, [](auto& t) { set_bf16(t.tensor(kLayer0 + "linear_attn.A_log"), 1, 0xff80); }},
      {"NaN among the scales", {"in_proj_qkv.scales': found NaN or infinity at row 37, group 0"}, [](auto& t) { set_bf16(t.tensor(kLayer0 + "linear_attn.in_proj_qkv.scales"), 37, 0x7fc0); }},
      {"infinity among the biases", {"lm_head.biases': found NaN or infinity at row 31, group 0"}, [](auto& t) { set_bf16(t.tensor("language_model.lm_head.biases"), 31, 0x7f80); }},
  };
}

void expect_refused(const Broken& row) {
  SCOPED_TRACE(row.input);
  TempFolder temp;
  const auto folder = temp.path() / "model";
  TinyCheckpoint tiny;
  if (row.before) row.before(tiny);
  tiny.write(folder);
  if (row.after) row.after(folder);
  for (const auto layout : {WeightLayout::kInterleaved16, WeightLayout::kRowMajor}) {
    const auto loaded = load_weights(folder, {.layout = layout, .cache_folder = temp.path() / "cache"});
    ASSERT_FALSE(loaded.has_value());
    for (const auto& part : row.says) {
      EXPECT_NE(loaded.error().message.find(part), std::string::npos) << part << "\n  in: " << loaded.error().message;
    }
  }
  EXPECT_FALSE(fs::exists(folder / ".lily/interleaved16.lilyimage.part"));
}

TEST(BrokenInputs, ConfigurationsAreRefusedByField) {
  for (const auto& row : broken_configs()) expect_refused(row);
}

TEST(BrokenInputs, QuantisationsAreRefusedByName) {
  for (const auto& row : broken_quantisations()) expect_refused(row);
}

TEST(BrokenInputs, FilesAreRefusedByNameAndPlace) {
  for (const auto& row : broken_files()) expect_refused(row);
}

TEST(BrokenInputs, TensorsAreRefusedByNameAndShape) {
  for (const auto& row : broken_tensors()) expect_refused(row);
}

TEST(BrokenInputs, TheDocsNameEveryRow) {
  const auto docs = read_text(Path(LILY_SOURCE_DIR) / "docs/BROKEN_INPUTS.md");
  std::size_t rows = 0;
  for (const auto& table : {broken_configs(), broken_quantisations(), broken_files(), broken_tensors()}) {
    for (const auto& row : table) {
      ++rows;
      EXPECT_NE(docs.find("| " + std::string(row.input) + " |"), std::string::npos) << row.input << " => " << row.says[0];
    }
  }
  EXPECT_GE(rows, 60u);
}

}  // namespace
}  // namespace lily::test
