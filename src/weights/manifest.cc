// The family's tensors, listed from its sizes; see manifest.h.
#include "weights/manifest.h"

#include "weights/hash.h"

namespace lily {
namespace {

constexpr std::string_view kModelPrefix = "language_model.model.";
constexpr std::string_view kHeadPrefix = "language_model.";

class Lister {
 public:
  explicit Lister(const CheckpointConfig& config) : config_(config), spec_(config.spec) {}

  std::vector<ManifestEntry> all() {
    matrix("embed_tokens", {spec_.vocab_rows, spec_.hidden});
    for (int layer = 0; layer < spec_.n_layers; ++layer) list_layer(layer);
    vector("norm", "norm.weight", {spec_.hidden});
    matrix("lm_head", {spec_.vocab_rows, spec_.hidden}, kHeadPrefix);
    return std::move(entries_);
  }

 private:
  void list_layer(int layer) {
    const std::string at = "layers." + std::to_string(layer) + ".";
    weight(at + "input_layernorm", {spec_.hidden});
    if (spec_.layer_kinds[static_cast<std::size_t>(layer)] == LayerKind::kDelta) {
      list_delta(at + "linear_attn.");
    } else {
      list_attention(at + "self_attn.");
    }
    weight(at + "post_attention_layernorm", {spec_.hidden});
    list_experts(at + "mlp.");
  }

  void list_delta(const std::string& at) {
    matrix(at + "in_proj_qkv", {spec_.conv_dim(), spec_.hidden});
    matrix(at + "in_proj_z", {spec_.value_dim(), spec_.hidden});
    matrix(at + "in_proj_b", {spec_.n_value_heads, spec_.hidden});
    matrix(at + "in_proj_a", {spec_.n_value_heads, spec_.hidden});
    weight(at + "conv1d", {spec_.conv_dim(), kConvTaps, 1});
    vector(at + "A_log", at + "A_log", {spec_.n_value_heads});
    vector(at + "dt_bias", at + "dt_bias", {spec_.n_value_heads});
    weight(at + "norm", {kDeltaDim});
    matrix(at + "out_proj", {spec_.hidden, spec_.value_dim()});
  }

  void list_attention(const std::string& at) {
    matrix(at + "q_proj", {2 * spec_.q_dim(), spec_.hidden});
    matrix(at + "k_proj", {spec_.kv_dim(), spec_.hidden});
    matrix(at + "v_proj", {spec_.kv_dim(), spec_.hidden});
    weight(at + "q_norm", {kHeadDim});
    weight(at + "k_norm", {kHeadDim});
    matrix(at + "o_proj", {spec_.hidden, spec_.q_dim()});
  }

  void list_experts(const std::string& at) {
    const std::int64_t experts = spec_.n_experts, hidden = spec_.hidden;
    const std::int64_t width = spec_.expert_width, shared = spec_.shared_width;
    matrix(at + "gate", {experts, hidden});
    matrix(at + "shared_expert_gate", {1, hidden});
    matrix(at + "switch_mlp.gate_proj", {experts, width, hidden});
    matrix(at + "switch_mlp.up_proj", {experts, width, hidden});
    matrix(at + "switch_mlp.down_proj", {experts, hidden, width});
    matrix(at + "shared_expert.gate_proj", {shared, hidden});
    matrix(at + "shared_expert.up_proj", {shared, hidden});
    matrix(at + "shared_expert.down_proj", {hidden, shared});
  }

  void matrix(const std::string& name, std::vector<std::int64_t> shape, std::string_view prefix = kModelPrefix) {
    ManifestEntry entry{name, std::string(prefix) + name, 1, shape.back(), config_.quant.bits_of(name), std::move(shape)};
    for (std::size_t i = 0; i + 1 < entry.source_shape.size(); ++i) entry.rows *= entry.source_shape[i];
    entries_.push_back(std::move(entry));
  }

  void weight(const std::string& name, std::vector<std::int64_t> shape) { vector(name, name + ".weight", std::move(shape)); }

  void vector(const std::string& name, const std::string& source, std::vector<std::int64_t> shape) {
    const bool flat = shape.size() == 1;
    entries_.push_back({name, std::string(kModelPrefix) + source, flat ? 1 : shape[0], flat ? shape[0] : shape[1], 0,
                        std::move(shape)});
  }

  const CheckpointConfig& config_;
  const ModelSpec& spec_;
  std::vector<ManifestEntry> entries_;
};

}  // namespace

std::vector<ManifestEntry> manifest(const CheckpointConfig& config) { return Lister(config).all(); }

std::uint64_t manifest_fingerprint(const std::vector<ManifestEntry>& entries) {
  Hasher hash;
  for (const auto& entry : entries) {
    hash.add(entry.name);
    hash.add(static_cast<std::uint64_t>(entry.rows));
    hash.add(static_cast<std::uint64_t>(entry.cols));
    hash.add(static_cast<std::uint64_t>(entry.bits));
  }
  return hash.value();
}

}  // namespace lily
