// The header of a safetensors file and the folder's index: what is found where. Broken ones: broken_inputs_test.cc.
#include "weights/safetensors.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/weights/support.h"
#include "weights/checkpoint.h"

namespace lily::test {
namespace {

Result<SafetensorsHeader> parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), file.size(), "x.safetensors");
}

TEST(Safetensors, ListsTensorsInTheOrderOfTheirBytes) {
  const auto header = parse(safetensors_with_header(
      R"({"b":{"dtype":"U8","shape":[2,1],"data_offsets":[0,2]},"a":{"dtype":"BF16","shape":[3],"data_offsets":[2,8]}})",
      "12345678"));
  ASSERT_TRUE(header.has_value()) << header.error().message;
  ASSERT_EQ(header->tensors.size(), 2u);
  EXPECT_EQ(header->tensors[0].name, "b");
  EXPECT_EQ(header->tensors[1].begin, header->header_bytes + 2);
  EXPECT_EQ(described(header->tensors[1]), "BF16 [3]");
}

TEST(Safetensors, ScalarsAndEmptyTensorsHaveTheirSizes) {
  const auto header = parse(safetensors_with_header(
      R"({"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"e":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]}})",
      "1234"));
  ASSERT_TRUE(header.has_value()) << header.error().message;
  EXPECT_EQ(header->tensors[0].bytes(), 4u);
  EXPECT_EQ(header->tensors[1].bytes(), 0u);
}

RC_GTEST_PROP(Safetensors, AnyCutOfAFileIsRefused, ()) {
  const static std::string file = safetensors_bytes(TinyCheckpoint().shards[0]);
  const auto size = *rc::gen::inRange<std::size_t>(0, file.size());
  RC_ASSERT(!parse(file.substr(0, size)).has_value());
}

// Whatever a byte of the header becomes, either it is refused or every span lies inside the file.
RC_GTEST_PROP(Safetensors, AChangedHeaderByteNeverLeavesTheFile, ()) {
  static const std::string good = safetensors_bytes(TinyCheckpoint().shards[1]);
  auto file = good;
  const auto limit = parse(good)->header_bytes;
  file[*rc::gen::inRange<std::size_t>(0, limit)] = *rc::gen::arbitrary<char>();
  const auto header = parse(file);
  if (!header.has_value()) return;
  for (const auto& t : header->tensors) RC_ASSERT(t.begin <= t.end && t.end <= file.size());
}

TEST(Index, NamesShardsAndHomes) {
  const auto index = parse_index(R"({"weight_map": {"b": "2.safetensors", "a": "1.safetensors", "c": "2.safetensors"}})");
  ASSERT_TRUE(index.has_value()) << index.error().message;
  EXPECT_EQ(index->shards, (std::vector<std::string>{"1.safetensors", "2.safetensors"}));
  EXPECT_EQ(index->home.at("c"), 1u);
}

TEST(Checkpoints, OpenFindsEveryTensorAndListsUnusedFiles) {
  const auto checkpoint = Checkpoint::open(pocket());
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->files().size(), 2u);
  const auto found = checkpoint->find("language_model.model.layers.0.linear_attn.conv1d.weight");
  ASSERT_TRUE(found);
  EXPECT_EQ(found.tensor->shape, (std::vector<std::int64_t>{2048, 4, 1}));
  EXPECT_EQ(found.bytes().size(), 16384u);
  EXPECT_FALSE(checkpoint->find("nothing"));
  EXPECT_EQ(checkpoint->unused_files(), std::vector<std::string>{"mtp.safetensors"});
}

TEST(Checkpoints, ASingleFileNeedsNoIndex) {
  TempFolder temp;
  auto tensors = TinyCheckpoint().shards[0];
  write_text(temp.path() / "model.safetensors", safetensors_bytes(tensors));
  const auto checkpoint = Checkpoint::open(temp.path());
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message;
  EXPECT_TRUE(checkpoint->find(tensors.begin()->first));
}

TEST(Checkpoints, ShardsMayBeLinksAsDownloadCachesMakeThem) {
  TempFolder temp, blobs;
  const TinyCheckpoint tiny;
  tiny.write(temp.path());
  const auto name = "model-00002-of-00002.safetensors";
  std::filesystem::rename(temp.path() / name, blobs.path() / "blob");
  std::filesystem::create_symlink(blobs.path() / "blob", temp.path() / name);
  EXPECT_TRUE(Checkpoint::open(temp.path()).has_value());
}

TEST(Checkpoints, FingerprintFollowsTimesAndHeaders) {
  TempFolder temp;
  TinyCheckpoint().write(temp.path());
  const auto shard = temp.path() / "model-00001-of-00002.safetensors";
  const auto first = Checkpoint::open(temp.path())->fingerprint();
  EXPECT_EQ(*first, *Checkpoint::open(temp.path())->fingerprint());
  const auto time = std::filesystem::last_write_time(shard);
  std::filesystem::last_write_time(shard, time + std::chrono::seconds(5));
  EXPECT_NE(*first, *Checkpoint::open(temp.path())->fingerprint());
  std::filesystem::last_write_time(shard, time);
  EXPECT_EQ(*first, *Checkpoint::open(temp.path())->fingerprint());
}

}  // namespace
}  // namespace lily::test
