// The sizes of the family out of text_config, end tokens and sampling defaults. Quantisation: quant_config.cc.
#include "weights/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "spec/sampling_bounds.h"
#include "weights/fields.h"
#include "weights/json.h"
#include "weights/quant_config.h"

namespace lily {
namespace {

using Kind = JsonValue::Kind;

constexpr std::string_view kFamily = "qwen3_5_moe";
constexpr int kMaxLayers = 256;
constexpr int kMaxHidden = 16384;
constexpr int kMaxHeads = 256;
constexpr int kMaxVocabRows = 1 << 20;
constexpr int kMaxContext = 1 << 20;
constexpr std::size_t kMaxEndTokens = 16;

Result<void> check_family(const JsonValue& root) {
  if (!root.is(Kind::kObject)) {
    return Error{ErrorCode::kCorrupt, "config.json: found " + root.shown() + ", expected an object"};
  }
  const JsonValue* type = root.find("model_type");
  if (!type || !type->is(Kind::kString)) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("config.json: model_type: found {}, supported: '{}'; {}",
                             type ? type->shown() : "nothing", kFamily, kWhatToGet)};
  }
  if (type->text != kFamily) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("config.json: model_type: found {}, another family; Lily runs '{}' (Qwen3.5 and Qwen3.6 "
                             "mixture of experts) only; {}",
                             type->shown(), kFamily, kWhatToGet)};
  }
  const JsonValue* text = root.find("text_config");
  if (!text || !text->is(Kind::kObject)) {
    return Error{ErrorCode::kCorrupt, fmt::format("config.json: text_config: found {}, expected an object",
                                                  text ? text->shown() : "nothing")};
  }
  return {};
}

// Values that are part of the kernels, not parameters of them.
void check_fixed(Fields& text) {
  text.fixed_bool("attention_bias", false);
  text.fixed_bool("attn_output_gate", true);
  text.fixed_bool("norm_topk_prob", true);
  text.fixed_bool("tie_word_embeddings", false);
  text.fixed_bool("use_sliding_window", false);
  text.fixed_word("hidden_act", "silu");
  text.fixed_word("mamba_ssm_dtype", "float32");
  text.fixed_number("head_dim", kHeadDim);
  text.fixed_number("linear_key_head_dim", kDeltaDim);
  text.fixed_number("linear_value_head_dim", kDeltaDim);
  text.fixed_number("linear_conv_kernel_dim", kConvTaps);
  text.fixed_number("partial_rotary_factor", double{kRotaryDims} / kHeadDim);
  text.fixed_number("decoder_sparse_step", 1);
  text.no_items("mlp_only_layers");
  text.absent("sliding_window", "attention over the whole context");
}

void read_sizes(Fields& text, ModelSpec& spec) {
  spec.n_layers = text.whole("num_hidden_layers", {1, kMaxLayers});
  spec.hidden = text.whole("hidden_size", {64, kMaxHidden, 64});
  spec.n_q_heads = text.whole("num_attention_heads", {1, kMaxHeads});
  spec.n_kv_heads = text.whole("num_key_value_heads", {1, kMaxHeads});
  spec.n_key_heads = text.whole("linear_num_key_heads", {1, kMaxHeads});
  spec.n_value_heads = text.whole("linear_num_value_heads", {1, kMaxHeads});
  spec.n_experts = text.whole("num_experts", {1, kMaxExperts});
  spec.n_chosen = text.whole("num_experts_per_tok", {1, kMaxChosenExperts});
  spec.expert_width = text.whole("moe_intermediate_size", {64, kMaxHidden, 64});
  spec.shared_width = text.whole("shared_expert_intermediate_size", {64, kMaxHidden, 64});
  spec.vocab_rows = text.whole("vocab_size", {16, kMaxVocabRows, 16});
  spec.max_context = text.whole("max_position_embeddings", {1, kMaxContext});
  spec.rms_eps = static_cast<float>(text.real_or("rms_norm_eps", 1e-6, 1e-12, 1e-2));
}

void check_ratios(Fields& text, const ModelSpec& spec) {
  if (spec.n_q_heads % spec.n_kv_heads != 0) {
    text.refuse("num_key_value_heads", std::to_string(spec.n_kv_heads),
                fmt::format("a divisor of num_attention_heads ({})", spec.n_q_heads));
  }
  if (spec.n_value_heads % spec.n_key_heads != 0) {
    text.refuse("linear_num_key_heads", std::to_string(spec.n_key_heads),
                fmt::format("a divisor of linear_num_value_heads ({})", spec.n_value_heads));
  }
  if (spec.n_chosen > spec.n_experts) {
    text.refuse("num_experts_per_tok", std::to_string(spec.n_chosen),
                fmt::format("at most num_experts ({})", spec.n_experts));
  }
}

void read_z_activation(Fields& text, ModelSpec& spec) {
  const auto name = text.word_or("output_gate_type", "swish");
  if (name == "sigmoid") {
    spec.z_activation = ZActivation::kSigmoid;
  } else if (name != "swish" && name != "silu") {
    text.refuse("output_gate_type", fmt::format("'{}'", printable(name)), "'swish' or 'sigmoid'");
  }
}

void layers_by_interval(Fields& text, ModelSpec& spec) {
  const int interval = text.whole("full_attention_interval", {1, kMaxLayers});
  for (int layer = 0; layer < spec.n_layers; ++layer) {
    spec.layer_kinds.push_back((layer + 1) % interval == 0 ? LayerKind::kAttention : LayerKind::kDelta);
  }
}

// layer_types where given, else every full_attention_interval-th layer attends.
void read_layer_kinds(Fields& text, ModelSpec& spec) {
  const JsonValue* types = text.find("layer_types");
  if (!types) return layers_by_interval(text, spec);
  if (!types->is(Kind::kArray) || types->items.size() != static_cast<std::size_t>(spec.n_layers)) {
    return text.refuse("layer_types", types->shown(),
                       fmt::format("a list of num_hidden_layers ({}) names", spec.n_layers));
  }
  for (std::size_t layer = 0; layer < types->items.size(); ++layer) {
    const auto& name = types->items[layer];
    const bool attends = name.text == "full_attention";
    if (!attends && name.text != "linear_attention") {
      return text.refuse(fmt::format("layer_types[{}]", layer), name.shown(),
                         "'linear_attention' or 'full_attention'");
    }
    spec.layer_kinds.push_back(attends ? LayerKind::kAttention : LayerKind::kDelta);
  }
}

void read_yarn(Fields& rope, RopeSpec& out) {
  out.factor = rope.real("factor", 1.0, 64.0);
  out.original_context = rope.whole("original_max_position_embeddings", {1, kMaxContext});
  out.beta_fast = rope.real_or("beta_fast", 32.0, 1.0, 1024.0);
  out.beta_slow = rope.real_or("beta_slow", 1.0, 0.01, 1024.0);
  rope.absent("attention_factor", "the magnitude 0.1 ln(factor) + 1 of YaRN itself");
  rope.fixed_number("mscale", 1);
  rope.fixed_number("mscale_all_dim", 0);
  rope.fixed_bool("truncate", true);
}

Result<void> read_rope(const JsonValue& text, ModelSpec& spec) {
  const JsonValue* object = text.find("rope_parameters");
  if (!object || !object->is(Kind::kObject)) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("config.json: text_config.rope_parameters: found {}, supported: an object with "
                             "rope_theta and rope_type",
                             object ? object->shown() : "nothing")};
  }
  Fields rope(*object, "config.json: text_config.rope_parameters.");
  const bool new_key = rope.find("rope_type") != nullptr;
  const auto type = rope.word_or(new_key ? "rope_type" : "type", "default");
  spec.rope.theta = rope.real("rope_theta", 1.0, 1e12);
  rope.fixed_number("partial_rotary_factor", double{kRotaryDims} / kHeadDim);
  if (type == "yarn") {
    read_yarn(rope, spec.rope);
  } else if (type != "default") {
    rope.refuse(new_key ? "rope_type" : "type", fmt::format("'{}'", printable(type)), "'default' or 'yarn'");
  }
  return rope.outcome();
}

Result<ModelSpec> read_spec(const JsonValue& object) {
  Fields text(object, "config.json: text_config.");
  ModelSpec spec;
  check_fixed(text);
  read_sizes(text, spec);
  LILY_RETURN_IF_ERROR(text.outcome());
  check_ratios(text, spec);
  read_z_activation(text, spec);
  read_layer_kinds(text, spec);
  LILY_RETURN_IF_ERROR(text.outcome());
  LILY_RETURN_IF_ERROR(read_rope(object, spec));
  return spec;
}

// One id or a list of ids.
Result<std::vector<TokenId>> token_ids(const JsonValue& value, const std::string& where, int vocab_rows) {
  const std::vector<JsonValue> one{value};
  const auto& items = value.is(Kind::kArray) ? value.items : one;
  std::vector<TokenId> ids;
  for (const auto& item : items) {
    if (!item.is(Kind::kInteger) || item.integer < 0 || item.integer >= vocab_rows) {
      return Error{ErrorCode::kUnsupported, fmt::format("{}: found {}, supported: token ids below vocab_size ({})",
                                                        where, item.shown(), vocab_rows)};
    }
    const auto id = static_cast<TokenId>(item.integer);
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  if (ids.empty() || ids.size() > kMaxEndTokens) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{}: found {} ids, supported: 1 to {}", where, ids.size(), kMaxEndTokens)};
  }
  return ids;
}

// generation_config.json knows all of them; config.json's list is next; text_config alone names only one of the two.
Result<std::vector<TokenId>> end_tokens(const JsonValue& generation, const JsonValue& root, int vocab_rows) {
  struct Source {
    const JsonValue& object;
    const char* where;
  };
  const Source sources[] = {{generation, "generation_config.json: eos_token_id"},
                            {root, "config.json: eos_token_id"},
                            {*root.find("text_config"), "config.json: text_config.eos_token_id"}};
  for (const auto& source : sources) {
    const JsonValue* value = source.object.find("eos_token_id");
    if (value && !value->is(Kind::kNull)) return token_ids(*value, source.where, vocab_rows);
  }
  return Error{ErrorCode::kUnsupported,
               "eos_token_id: found nothing in generation_config.json and config.json, supported: at least one id"};
}

Result<GenerationDefaults> read_generation(const JsonValue& object) {
  Fields fields(object, "generation_config.json: ");
  GenerationDefaults out;
  const auto real = [&](std::string_view name, SamplingBound bound) {
    return fields.optional_real(name, bound.low, bound.high);
  };
  out.temperature = real("temperature", kTemperatureBound);
  out.top_p = real("top_p", kTopPBound);
  out.min_p = real("min_p", kMinPBound);
  out.repetition_penalty = real("repetition_penalty", kRepetitionPenaltyBound);
  if (fields.find("top_k")) {
    out.top_k = fields.whole("top_k", {static_cast<int>(kTopKBound.low), static_cast<int>(kTopKBound.high)});
  }
  if (const JsonValue* sample = fields.find("do_sample")) {
    if (!sample->is(Kind::kBool)) fields.refuse("do_sample", sample->shown(), "true or false");
    out.do_sample = sample->boolean;
  }
  LILY_RETURN_IF_ERROR(fields.outcome());
  return out;
}

Result<JsonValue> parse_generation(std::string_view text) {
  if (text.empty()) return JsonValue{};
  LILY_TRY(auto object, parse_json_tree(text, "generation_config.json"));
  if (!object.is(Kind::kObject)) {
    return Error{ErrorCode::kCorrupt, "generation_config.json: found " + object.shown() + ", expected an object"};
  }
  return object;
}

}  // namespace

std::string_view canonical_name(std::string_view source_name) {
  for (const std::string_view prefix : {"language_model.", "model."}) {
    if (source_name.substr(0, prefix.size()) == prefix) source_name.remove_prefix(prefix.size());
  }
  return source_name;
}

Result<CheckpointConfig> parse_config(std::string_view config_json, std::string_view generation_config_json) {
  LILY_TRY(const JsonValue root, parse_json_tree(config_json, "config.json"));
  LILY_RETURN_IF_ERROR(check_family(root));
  LILY_TRY(const JsonValue generation, parse_generation(generation_config_json));
  CheckpointConfig config;
  LILY_TRY(config.quant, parse_quantization(root));
  LILY_TRY(config.spec, read_spec(*root.find("text_config")));
  Fields top(root, "config.json: ");
  top.fixed_bool("tie_word_embeddings", false);
  LILY_RETURN_IF_ERROR(top.outcome());
  LILY_TRY(config.spec.end_tokens, end_tokens(generation, root, config.spec.vocab_rows));
  LILY_TRY(config.generation, read_generation(generation));
  Fields text(*root.find("text_config"), "config.json: text_config.");
  config.n_draft_layers = text.whole_or("mtp_num_hidden_layers", 0, {0, 8});
  LILY_RETURN_IF_ERROR(text.outcome());
  return config;
}

}  // namespace lily
