// See synth_config.h. The field names and values are those of the published config.json (docs/CHECKPOINTS.md).
#include "weights/synth_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lily {
namespace {

constexpr int kInterval = 4;
constexpr int kMaxSynthLayers = 256;

ModelSpec qwen36_35b() {
  ModelSpec spec;
  spec.n_layers = 40;
  spec.hidden = 2048;
  spec.n_q_heads = 16;
  spec.n_kv_heads = 2;
  spec.n_key_heads = 16;
  spec.n_value_heads = 32;
  spec.n_experts = 256;
  spec.n_chosen = 8;
  spec.expert_width = 512;
  spec.shared_width = 512;
  spec.vocab_rows = 248320;
  spec.max_context = 262144;
  spec.end_tokens = {248046, 248044};
  return spec;
}

ModelSpec pocket() {
  ModelSpec spec;
  spec.n_layers = 8;
  spec.hidden = 256;
  spec.n_q_heads = 16;
  spec.n_kv_heads = 2;
  spec.n_key_heads = 4;
  spec.n_value_heads = 8;
  spec.n_experts = 16;
  spec.n_chosen = 4;
  spec.expert_width = 128;
  spec.shared_width = 128;
  spec.vocab_rows = 4096;
  spec.max_context = 8192;
  spec.end_tokens = {4072, 4070};
  return spec;
}

std::string quantization(const ModelSpec& spec) {
  std::string text = "{\n        \"group_size\": 64,\n        \"bits\": 4,\n        \"mode\": \"affine\"";
  for (int layer = 0; layer < spec.n_layers; ++layer) {
    for (const char* gate : {"gate", "shared_expert_gate"}) {
      text += fmt::format(",\n        \"language_model.model.layers.{}.mlp.{}\": {{\"group_size\": 64, \"bits\": 8}}", layer,
                          gate);
    }
  }
  return text + "\n    }";
}

std::string layer_types(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const auto kind : spec.layer_kinds) {
    names.push_back(kind == LayerKind::kDelta ? "\"linear_attention\"" : "\"full_attention\"");
  }
  return fmt::format("[{}]", fmt::join(names, ", "));
}

// "name": value lines of text_config, without those of layers and rope.
std::string size_fields(const ModelSpec& s) {
  const std::pair<const char*, int> fields[] = {
      {"full_attention_interval", kInterval}, {"head_dim", kHeadDim}, {"hidden_size", s.hidden},
      {"linear_conv_kernel_dim", kConvTaps}, {"linear_key_head_dim", kDeltaDim},
      {"linear_num_key_heads", s.n_key_heads}, {"linear_num_value_heads", s.n_value_heads},
      {"linear_value_head_dim", kDeltaDim}, {"max_position_embeddings", s.max_context},
      {"moe_intermediate_size", s.expert_width}, {"num_attention_heads", s.n_q_heads}, {"num_experts", s.n_experts},
      {"num_experts_per_tok", s.n_chosen}, {"num_hidden_layers", s.n_layers}, {"num_key_value_heads", s.n_kv_heads},
      {"shared_expert_intermediate_size", s.shared_width}, {"vocab_size", s.vocab_rows}};
  std::string text;
  for (const auto& [name, value] : fields) text += fmt::format("        \"{}\": {},\n", name, value);
  return text;
}

}  // namespace

Result<ModelSpec> synthetic_spec(const std::string& name, int layers) {
  if (name != "35b" && name != "pocket") {
    return Error{ErrorCode::kInvalidArgument, fmt::format("spec: found '{}', expected '35b' or 'pocket'", name)};
  }
  if (layers < 0 || layers > kMaxSynthLayers) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("layers: found {}, expected 1 to {}, or 0 for all", layers, kMaxSynthLayers)};
  }
  ModelSpec spec = name == "35b" ? qwen36_35b() : pocket();
  if (layers > 0) spec.n_layers = layers;
  for (int layer = 0; layer < spec.n_layers; ++layer) {
    spec.layer_kinds.push_back((layer + 1) % kInterval == 0 ? LayerKind::kAttention : LayerKind::kDelta);
  }
  return spec;
}

std::string synthetic_config(const ModelSpec& spec) {
  const auto table = quantization(spec);
  return fmt::format(R"({{
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "eos_token_id": [{0}],
    "model_type": "qwen3_5_moe",
    "quantization": {1},
    "quantization_config": {1},
    "text_config": {{
        "attention_bias": false,
        "attn_output_gate": true,
        "dtype": "bfloat16",
        "eos_token_id": {2},
{3}        "hidden_act": "silu",
        "layer_types": {4},
        "mamba_ssm_dtype": "float32",
        "model_type": "qwen3_5_moe_text",
        "partial_rotary_factor": 0.25,
        "rms_norm_eps": 1e-06,
        "rope_parameters": {{"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25}},
        "tie_word_embeddings": false
    }},
    "tie_word_embeddings": false
}})",
                     fmt::join(spec.end_tokens, ", "), table, spec.end_tokens.back(), size_fields(spec), layer_types(spec));
}

std::string synthetic_generation_config(const ModelSpec& spec) {
  return fmt::format(R"({{
    "do_sample": true,
    "eos_token_id": [{}],
    "temperature": 1.0,
    "top_k": 20,
    "top_p": 0.95
}}
)",
                     fmt::join(spec.end_tokens, ", "));
}

}  // namespace lily
