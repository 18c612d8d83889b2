// Synthetic checkpoints: loadable, repeatable, awkward in the ways of the real ones; and the summary of a folder.
#include "weights/synth.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/weights/support.h"
#include "weights/floats.h"
#include "weights/inspect.h"
#include "weights/load.h"

namespace lily::test {
namespace {

class Synth : public testing::Test {
 protected:
  SynthOptions options(const std::string& name) const {
    SynthOptions o;
    o.spec = "pocket";
    o.layers = 4;
    o.seed = 3;
    o.out = temp_.path() / name;
    o.tokenizer_folder = pocket();
    return o;
  }
  TempFolder temp_;
};

TEST_F(Synth, WritesACheckpointThatLoads) {
  ASSERT_TRUE(write_synthetic_checkpoint(options("a")).has_value());
  const auto loaded = load_weights(temp_.path() / "a", {.pack = false});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->config.spec.n_layers, 4);
  EXPECT_EQ(loaded->config.spec.layer_kinds[3], LayerKind::kAttention);
  EXPECT_EQ(loaded->config.quant.bits_of("layers.1.mlp.gate"), 8);
  EXPECT_EQ(loaded->config.spec.end_tokens, (std::vector<TokenId>{4072, 4070}));
  EXPECT_TRUE(std::filesystem::exists(temp_.path() / "a/tokenizer.json"));
}

TEST_F(Synth, ATokenizerAloneIsEndedByTheFamilysOwnTokens) {
  SynthOptions o = options("b");
  o.tokenizer_folder = temp_.path() / "words";
  const auto refused = write_synthetic_checkpoint(o);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
  EXPECT_NE(refused.error().message.find("words/tokenizer.json"), std::string::npos);
  std::filesystem::create_directory(o.tokenizer_folder);
  std::filesystem::copy(pocket() / "tokenizer.json", o.tokenizer_folder);
  ASSERT_TRUE(write_synthetic_checkpoint(o).has_value());
  const auto loaded = load_weights(o.out, {.pack = false});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->config.spec.end_tokens, (std::vector<TokenId>{4072, 4070}));
}

TEST_F(Synth, TheSameSeedGivesTheSameBytes) {
  ASSERT_TRUE(write_synthetic_checkpoint(options("a")).has_value());
  ASSERT_TRUE(write_synthetic_checkpoint(options("b")).has_value());
  auto other = options("c");
  other.seed = 4;
  ASSERT_TRUE(write_synthetic_checkpoint(other).has_value());
  const auto shard = [&](const char* name) {
    return read_text(temp_.path() / name / "model-00001-of-00001.safetensors");
  };
  EXPECT_TRUE(shard("a") == shard("b"));
  EXPECT_FALSE(shard("a") == shard("c"));
}

TEST_F(Synth, DataAreUnalignedAndOutOfOrder) {
  ASSERT_TRUE(write_synthetic_checkpoint(options("a")).has_value());
  const auto checkpoint = Checkpoint::open(temp_.path() / "a");
  const auto& tensors = checkpoint->files()[0].tensors();
  EXPECT_EQ(tensors[0].begin % 2, 1u);
  EXPECT_FALSE(std::is_sorted(tensors.begin(), tensors.end(), [](auto& a, auto& b) { return a.name < b.name; }));
}

TEST_F(Synth, WeightsHaveTheDeviationOfATrainedProjection) {
  ASSERT_TRUE(write_synthetic_checkpoint(options("a")).has_value());
  const auto checkpoint = Checkpoint::open(temp_.path() / "a");
  for (const auto& entry : manifest(*read_config(temp_.path() / "a"))) {
    if (!entry.quantised() || entry.rows < 64) continue;
    const SourceMatrix matrix(*checkpoint, entry);
    double sum = 0, squares = 0;
    const std::int64_t rows = std::min<std::int64_t>(entry.rows, 256);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t col = 0; col < entry.cols; ++col) {
        const double w = matrix.weight(row, col);
        sum += w;
        squares += w * w;
      }
    }
    const double n = static_cast<double>(rows * entry.cols), wanted = (entry.name == "lm_head" ? 3.0 : 1.0) / std::sqrt(entry.cols);
    EXPECT_NEAR(std::sqrt(squares / n) / wanted, 1.0, 0.08) << entry.name;
    EXPECT_LT(std::abs(sum / n), 0.1 * wanted) << entry.name;
  }
}

TEST_F(Synth, NormsAndDecaysAreSane) {
  ASSERT_TRUE(write_synthetic_checkpoint(options("a")).has_value());
  const auto checkpoint = Checkpoint::open(temp_.path() / "a");
  const auto values = [&](const std::string& name) {
    return to_floats(checkpoint->find("language_model.model.layers.0." + name).bytes(), "BF16");
  };
  for (const float v : values("input_layernorm.weight")) EXPECT_NEAR(v, 1.0f, 0.11f);
  const auto a_log = values("linear_attn.A_log"), dt_bias = values("linear_attn.dt_bias");
  for (std::size_t i = 0; i < a_log.size(); ++i) {
    const double decay = std::exp(-std::exp(a_log[i]) * std::log1p(std::exp(dt_bias[i])));
    EXPECT_GT(decay, 0.1);
    EXPECT_LT(decay, 1.0);
  }
}

TEST_F(Synth, RefusesWhatItCannotMake) {
  auto unknown = options("a");
  unknown.spec = "70b";
  EXPECT_NE(write_synthetic_checkpoint(unknown).error().message.find("'35b' or 'pocket'"), std::string::npos);
  auto deep = options("a");
  deep.layers = 1000;
  EXPECT_EQ(write_synthetic_checkpoint(deep).error().code, ErrorCode::kInvalidArgument);
  auto full = options("a");
  std::filesystem::create_directories(full.out);
  write_text(full.out / "notes.txt", "mine");
  EXPECT_NE(write_synthetic_checkpoint(full).error().message.find("empty folder"), std::string::npos);
}

TEST(Inspect, DescribesThePocket) {
  const auto summary = inspect(pocket());
  ASSERT_TRUE(summary.has_value()) << summary.error().message;
  EXPECT_EQ(summary->source_bytes, 16234304u);  // total_size of its index
  std::uint64_t parts = 0;
  for (const auto& part : summary->parts) parts += part.source_bytes;
  EXPECT_EQ(parts, summary->source_bytes);
  ASSERT_EQ(summary->left_out.size(), 1u);
  EXPECT_EQ(summary->left_out[0].name, "mtp.safetensors");
  // Six delta layers of 8 heads and windows of 2,048 channels: 3,293,184 bytes, a multiple of a page.
  EXPECT_EQ(summary->state_bytes, 6u * (8 * 128 * 128 + 3 * 2048) * 4);
  EXPECT_EQ(summary->kv_bytes_per_token, 2u * 2 * 512 * 2);
  EXPECT_EQ(summary->images.size(), 2u);
}

TEST(Inspect, SaysWhatIsLeftOutAndWhetherAnImageFits) {
  TempFolder temp;
  TinyCheckpoint tiny;
  tiny.add("vision_tower.pos_embed.weight", {"BF16", {2}, "abcd"});
  tiny.write(temp.path());
  EXPECT_EQ(inspect(temp.path(), temp.path())->images[0].problem, "not packed yet");
  ASSERT_TRUE(load_weights(temp.path(), {}).has_value());
  const auto summary = inspect(temp.path(), temp.path());
  EXPECT_EQ(summary->left_out[0].name, "vision tower");
  EXPECT_EQ(summary->left_out[0].bytes, 4u);
  EXPECT_EQ(summary->images[0].problem, "");
  EXPECT_GT(summary->images[0].bytes, summary->image_bytes);
}

}  // namespace
}  // namespace lily::test
