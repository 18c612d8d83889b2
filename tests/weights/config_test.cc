// config.json and generation_config.json: what is read, from where, and which members of the family fit.
#include "weights/config.h"

#include <gtest/gtest.h>

#include "tests/weights/support.h"

namespace lily::test {
namespace {

CheckpointConfig parsed(const TinyCheckpoint& tiny) {
  auto config = parse_config(tiny.config.dump(), tiny.generation.is_null() ? "" : tiny.generation.dump());
  EXPECT_TRUE(config.has_value()) << config.error().message;
  return config.value_or(CheckpointConfig{});
}

TEST(Config, ReadsThePocketCheckpoint) {
  const auto config = read_config(pocket());
  ASSERT_TRUE(config.has_value()) << config.error().message;
  const auto& spec = config->spec;
  EXPECT_EQ(spec.n_layers, 8);
  EXPECT_EQ(spec.hidden, 256);
  EXPECT_EQ(spec.n_q_heads, 16);
  EXPECT_EQ(spec.n_kv_heads, 2);
  EXPECT_EQ(spec.n_key_heads, 4);
  EXPECT_EQ(spec.n_value_heads, 8);
  EXPECT_EQ(spec.n_experts, 16);
  EXPECT_EQ(spec.n_chosen, 4);
  EXPECT_EQ(spec.expert_width, 128);
  EXPECT_EQ(spec.shared_width, 128);
  EXPECT_EQ(spec.vocab_rows, 4096);
  EXPECT_EQ(spec.max_context, 8192);
  EXPECT_EQ(spec.conv_dim(), 2048);
  EXPECT_EQ(spec.end_tokens, (std::vector<TokenId>{4072, 4070}));
  EXPECT_EQ(spec.count(LayerKind::kAttention), 2);
  EXPECT_EQ(spec.layer_kinds[3], LayerKind::kAttention);
  EXPECT_EQ(config->generation.top_k, 20);
  EXPECT_EQ(config->generation.do_sample, true);
  EXPECT_EQ(config->n_draft_layers, 1);
}

TEST(Config, GivesEachModuleItsBits) {
  const auto config = parsed(TinyCheckpoint());
  EXPECT_EQ(config.quant.bits_of("layers.2.mlp.gate"), 8);
  EXPECT_EQ(config.quant.bits_of("layers.2.mlp.shared_expert_gate"), 8);
  EXPECT_EQ(config.quant.bits_of("layers.2.mlp.switch_mlp.gate_proj"), 4);
  EXPECT_EQ(config.quant.bits_of("lm_head"), 4);
}

TEST(Config, IgnoresBitsOfTheVisionTowerAndTheDraftHead) {
  TinyCheckpoint tiny;
  for (const char* field : {"quantization", "quantization_config"}) {
    tiny.config[field]["vision_tower.blocks.0.attn.qkv"] = false;
    tiny.config[field]["language_model.mtp.fc"] = {{"group_size", 32}, {"bits", 3}};
  }
  EXPECT_EQ(parsed(tiny).quant.overrides.size(), 8u);
}

TEST(Config, TakesEndTokensFromGenerationThenTopLevelThenTextConfig) {
  TinyCheckpoint tiny;
  tiny.generation["eos_token_id"] = {29, 28};
  EXPECT_EQ(parsed(tiny).spec.end_tokens, (std::vector<TokenId>{29, 28}));
  tiny.generation.erase("eos_token_id");
  EXPECT_EQ(parsed(tiny).spec.end_tokens, (std::vector<TokenId>{30, 31}));
  tiny.generation = nullptr;
  tiny.config.erase("eos_token_id");
  EXPECT_EQ(parsed(tiny).spec.end_tokens, (std::vector<TokenId>{30}));
}

TEST(Config, DerivesLayerKindsFromTheInterval) {
  TinyCheckpoint tiny;
  tiny.config["text_config"].erase("layer_types");
  EXPECT_EQ(parsed(tiny).spec.layer_kinds, parsed(TinyCheckpoint()).spec.layer_kinds);
  tiny.config["text_config"]["full_attention_interval"] = 2;
  EXPECT_EQ(parsed(tiny).spec.layer_kinds,
            (std::vector{LayerKind::kDelta, LayerKind::kAttention, LayerKind::kDelta, LayerKind::kAttention}));
}

TEST(Config, ReadsYarnUnderBothKeysOfItsType) {
  for (const char* key : {"rope_type", "type"}) {
    TinyCheckpoint tiny;
    tiny.config["text_config"]["rope_parameters"] = {
        {key, "yarn"}, {"rope_theta", 1e7}, {"factor", 4.0}, {"original_max_position_embeddings", 512}};
    const auto rope = parsed(tiny).spec.rope;
    EXPECT_EQ(rope.factor, 4.0);
    EXPECT_EQ(rope.original_context, 512.0);
    EXPECT_EQ(rope.beta_fast, 32.0);
  }
}

TEST(Config, ReadsTheActivationOfTheDeltaGate) {
  TinyCheckpoint tiny;
  EXPECT_EQ(parsed(tiny).spec.z_activation, ZActivation::kSilu);
  tiny.config["text_config"]["output_gate_type"] = "sigmoid";
  EXPECT_EQ(parsed(tiny).spec.z_activation, ZActivation::kSigmoid);
}

TEST(Config, AcceptsFieldsThatAreAbsentOrNull) {
  TinyCheckpoint tiny;
  auto& text = tiny.config["text_config"];
  for (const char* name : {"attention_bias", "attn_output_gate", "hidden_act", "head_dim", "mamba_ssm_dtype"}) text.erase(name);
  text["sliding_window"] = nullptr;
  text["norm_topk_prob"] = true;
  text["mlp_only_layers"] = nlohmann::ordered_json::array();
  tiny.config.erase("quantization_config");
  EXPECT_EQ(parsed(tiny).spec.hidden, 64);
}

TEST(Config, AcceptsOtherMembersOfTheFamilyThatFit) {
  TinyCheckpoint tiny;
  auto& text = tiny.config["text_config"];
  text["hidden_size"] = 4096;
  text["num_experts"] = 512;
  text["num_experts_per_tok"] = 10;
  text["num_attention_heads"] = 32;
  text["num_key_value_heads"] = 2;
  text["linear_num_key_heads"] = 16;
  text["linear_num_value_heads"] = 64;
  text["moe_intermediate_size"] = 1024;
  text["max_position_embeddings"] = 1 << 20;
  EXPECT_EQ(parsed(tiny).spec.n_experts, 512);
}

TEST(Config, CanonicalNamesLoseTheirPrefixes) {
  EXPECT_EQ(canonical_name("language_model.model.layers.0.mlp.gate"), "layers.0.mlp.gate");
  EXPECT_EQ(canonical_name("language_model.lm_head"), "lm_head");
  EXPECT_EQ(canonical_name("model.norm"), "norm");
  EXPECT_EQ(canonical_name("norm"), "norm");
}

}  // namespace
}  // namespace lily::test
