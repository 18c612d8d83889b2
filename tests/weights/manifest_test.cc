// The list of tensors, and the published index's totals reproduced from it.
#include "weights/manifest.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/weights/support.h"
#include "weights/synth_config.h"
#include "weights/synth_values.h"

namespace lily::test {
namespace {

std::vector<ManifestEntry> of_spec(const std::string& name) {
  const auto spec = synthetic_spec(name, 0);
  return manifest(*parse_config(synthetic_config(*spec), synthetic_generation_config(*spec)));
}

// Figures of mlx-community/Qwen3.6-35B-A3B-4bit: 1,757 language tensors of 19,508,787,456 bytes, 34,660,610,688 weights.
TEST(Manifest, ReproducesThePublishedCheckpointsTotals) {
  std::uint64_t tensors = 0, bytes = 0, weights = 0;
  for (const auto& entry : of_spec("35b")) {
    weights += static_cast<std::uint64_t>(entry.rows * entry.cols);
    for (const auto& tensor : synth_tensors(entry)) {
      ++tensors;
      bytes += tensor.bytes;
    }
  }
  EXPECT_EQ(tensors, 1757u);
  EXPECT_EQ(bytes, 19'508'787'456u);
  EXPECT_EQ(weights, 34'660'610'688u);
}

TEST(Manifest, ListsExactlyThePocketsTensors) {
  const auto checkpoint = Checkpoint::open(pocket());
  std::set<std::string> wanted;
  for (const auto& entry : manifest(*read_config(pocket()))) {
    for (const auto& tensor : synth_tensors(entry)) wanted.insert(tensor.name);
  }
  std::set<std::string> present;
  for (const auto& file : checkpoint->files()) {
    for (const auto& tensor : file.tensors()) present.insert(tensor.name);
  }
  EXPECT_EQ(wanted, present);
}

TEST(Manifest, RunsInTheOrderOfAPass) {
  const auto entries = of_spec("pocket");
  EXPECT_EQ(entries.front().name, "embed_tokens");
  EXPECT_EQ(entries[1].name, "layers.0.input_layernorm");
  EXPECT_EQ(entries[2].name, "layers.0.linear_attn.in_proj_qkv");
  EXPECT_EQ(entries.back().name, "lm_head");
  EXPECT_EQ(entries[entries.size() - 2].name, "norm");
}

TEST(Manifest, FingerprintFollowsBitsAndShapes) {
  auto config = *read_config(pocket());
  const auto before = manifest_fingerprint(manifest(config));
  config.spec.rope.factor = 4.0;
  EXPECT_EQ(manifest_fingerprint(manifest(config)), before);
  config.quant.overrides["lm_head"] = 8;
  EXPECT_NE(manifest_fingerprint(manifest(config)), before);
}

TEST(Manifest, VisionAndDraftTensorsAreNoSurplus) {
  TempFolder temp;
  TinyCheckpoint tiny;
  tiny.add("vision_tower.pos_embed.weight", {"BF16", {2}, "abcd"});
  tiny.add("language_model.mtp.fc.weight", {"BF16", {1}, "ab"});
  tiny.write(temp.path());
  EXPECT_TRUE(check_source(*Checkpoint::open(temp.path()), manifest(*read_config(temp.path()))).has_value());
}

TEST(Manifest, ListsEightProblemsAndCountsTheRest) {
  TempFolder temp;
  TinyCheckpoint tiny;
  for (int i = 0; i < 10; ++i) tiny.add("extra." + std::to_string(i), {"BF16", {1}, "ab"});
  tiny.write(temp.path());
  const auto checked = check_source(*Checkpoint::open(temp.path()), manifest(*read_config(temp.path())));
  ASSERT_FALSE(checked.has_value());
  EXPECT_NE(checked.error().message.find("unknown tensor 'extra.5'"), std::string::npos) << checked.error().message;
  EXPECT_NE(checked.error().message.find("; and 2 more"), std::string::npos) << checked.error().message;
}

}  // namespace
}  // namespace lily::test
