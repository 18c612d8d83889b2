// From names in the image to addresses.
#include "model/weights.h"

#include <string>

namespace lily {
namespace {

// Looks tensors up by name and remembers the first that is missing, so that binding reads as a list.
class Binder {
 public:
  Binder(const WeightImage& image, const Buffer& memory, WeightLayout layout)
      : image_(image), memory_(memory), layout_(layout) {}

  QuantMatrix matrix(const std::string& name) {
    const TensorView* tensor = find(name);
    if (!tensor || tensor->bits == 0) return missing(name), QuantMatrix{};
    const auto* codes = address(*tensor);
    const QuantExtent extent = quant_extent(layout_, {tensor->rows, tensor->cols, tensor->bits});
    const auto side = [&](std::size_t offset) {
      return offset ? reinterpret_cast<const std::uint16_t*>(codes + offset) : nullptr;
    };
    return {codes,
            side(extent.scales),
            side(extent.biases),
            static_cast<std::int32_t>(tensor->rows),
            static_cast<std::int32_t>(tensor->cols),
            tensor->bits,
            static_cast<std::uint32_t>(layout_)};
  }

  const float* vector(const std::string& name) {
    const TensorView* tensor = find(name);
    if (!tensor || tensor->bits != 0) return missing(name), nullptr;
    return reinterpret_cast<const float*>(address(*tensor));
  }

  Result<void> result() const {
    if (first_missing_.empty()) return {};
    return Error{ErrorCode::kCorrupt, "weight image: tensor '" + first_missing_ + "' is missing or of another kind"};
  }

 private:
  const TensorView* find(const std::string& name) const { return image_.find(name); }
  // The same place in the backend's copy (or in the very mapping, on unified memory).
  const unsigned char* address(const TensorView& tensor) const {
    return memory_.as<unsigned char>(static_cast<std::size_t>(tensor.data - image_.bytes().data()));
  }
  void missing(const std::string& name) {
    if (first_missing_.empty()) first_missing_ = name;
  }

  const WeightImage& image_;
  const Buffer& memory_;
  WeightLayout layout_;
  std::string first_missing_;
};

DeltaWeights bind_delta(Binder& bind, const std::string& at) {
  return {.in_qkv = bind.matrix(at + "in_proj_qkv"),
          .in_z = bind.matrix(at + "in_proj_z"),
          .in_b = bind.matrix(at + "in_proj_b"),
          .in_a = bind.matrix(at + "in_proj_a"),
          .out = bind.matrix(at + "out_proj"),
          .conv = bind.vector(at + "conv1d"),
          .a_log = bind.vector(at + "A_log"),
          .dt_bias = bind.vector(at + "dt_bias"),
          .norm = bind.vector(at + "norm")};
}

AttentionWeights bind_attention(Binder& bind, const std::string& at) {
  return {.in_q = bind.matrix(at + "q_proj"),
          .in_k = bind.matrix(at + "k_proj"),
          .in_v = bind.matrix(at + "v_proj"),
          .out = bind.matrix(at + "o_proj"),
          .q_norm = bind.vector(at + "q_norm"),
          .k_norm = bind.vector(at + "k_norm")};
}

ExpertWeights bind_experts(Binder& bind, const std::string& at) {
  return {.router = bind.matrix(at + "gate"),
          .shared_gate = bind.matrix(at + "shared_expert_gate"),
          .gate = bind.matrix(at + "switch_mlp.gate_proj"),
          .up = bind.matrix(at + "switch_mlp.up_proj"),
          .down = bind.matrix(at + "switch_mlp.down_proj"),
          .shared_up_gate = bind.matrix(at + "shared_expert.gate_proj"),
          .shared_up = bind.matrix(at + "shared_expert.up_proj"),
          .shared_down = bind.matrix(at + "shared_expert.down_proj")};
}

LayerWeights bind_layer(Binder& bind, LayerKind kind, int index) {
  const std::string at = "layers." + std::to_string(index) + ".";
  LayerWeights layer{.input_norm = bind.vector(at + "input_layernorm"),
                     .post_norm = bind.vector(at + "post_attention_layernorm"),
                     .mixer = {},
                     .experts = bind_experts(bind, at + "mlp.")};
  if (kind == LayerKind::kDelta) {
    layer.mixer = bind_delta(bind, at + "linear_attn.");
  } else {
    layer.mixer = bind_attention(bind, at + "self_attn.");
  }
  return layer;
}

}  // namespace

Result<ModelWeights> ModelWeights::bind(Backend& backend, const LoadedWeights& loaded) {
  ModelWeights weights;
  weights.spec = loaded.config.spec;
  LILY_TRY(weights.image, backend.adopt(loaded.image.bytes(), loaded.image.owner()));
  Binder bind(loaded.image, weights.image, backend.info().layout);
  weights.embedding = bind.matrix("embed_tokens");
  weights.lm_head = bind.matrix("lm_head");
  weights.final_norm = bind.vector("norm");
  for (int i = 0; i < weights.spec.n_layers; ++i) {
    weights.layers.push_back(bind_layer(bind, weights.spec.layer_kinds[static_cast<std::size_t>(i)], i));
  }
  LILY_RETURN_IF_ERROR(bind.result());
  return weights;
}

}  // namespace lily
