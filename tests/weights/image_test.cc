// The header of an image: written and read back; every changed byte noticed.
#include "weights/image.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>

#include "tests/weights/support.h"

namespace lily::test {
namespace {

ImageHeader tiny_header() {
  const TinyCheckpoint tiny;
  auto header = plan_image(manifest(*parse_config(tiny.config.dump(), "")), WeightLayout::kInterleaved16, 77);
  header.blocks_done = header.block_sums.size();
  return header;
}

Result<ImageHeader> parse(std::span<const std::byte> bytes, std::uint64_t file_bytes, bool unfinished = false) {
  return parse_image_header(bytes, {file_bytes, "x.lilyimage", unfinished});
}

TEST(Image, HeaderComesBackAsItWas) {
  auto header = tiny_header();
  header.block_sums[0] = 123456789;
  const auto bytes = image_header_bytes(header);
  EXPECT_EQ(bytes.size(), header.data_start);
  const auto back = parse(bytes, header.file_bytes());
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_EQ(back->source, 77u);
  EXPECT_EQ(back->manifest, header.manifest);
  EXPECT_EQ(back->block_sums, header.block_sums);
  ASSERT_EQ(back->tensors.size(), header.tensors.size());
  EXPECT_EQ(back->tensors.back().name, "lm_head");
  EXPECT_EQ(back->tensors.back().offset, header.tensors.back().offset);
}

TEST(Image, TensorsLieAlignedInOrderAndApart) {
  const auto header = tiny_header();
  std::uint64_t end = 0;
  for (const auto& tensor : header.tensors) {
    EXPECT_EQ(tensor.offset % kSectionAlign, 0u) << tensor.name;
    EXPECT_GE(tensor.offset, end) << tensor.name;
    end = tensor.offset + tensor.bytes;
  }
  EXPECT_LE(end, header.data_bytes);
  EXPECT_EQ(header.data_start % kImageAlign, 0u);
  EXPECT_EQ(header.data_bytes % kImageAlign, 0u);
}

RC_GTEST_PROP(Image, AFlippedBitOfTheHeaderIsNoticed, ()) {
  static const auto header = tiny_header();
  auto bytes = image_header_bytes(header);
  std::uint64_t used = 0;
  std::memcpy(&used, bytes.data() + 16, 8);
  const auto bit = *rc::gen::inRange<std::size_t>(0, used * 8);
  bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
  RC_ASSERT(!parse(bytes, header.file_bytes()).has_value());
}

TEST(Image, UnfinishedImagesAreForThePackerOnly) {
  auto header = tiny_header();
  header.blocks_done = 0;
  const auto bytes = image_header_bytes(header);
  const auto refused = parse(bytes, header.file_bytes());
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("unfinished"), std::string::npos);
  EXPECT_TRUE(parse(bytes, header.data_start, true).has_value());
}

TEST(Image, DamageIsSaidInWords) {
  const auto header = tiny_header();
  const auto good = image_header_bytes(header);
  const auto message = [&](std::vector<std::byte> bytes, std::uint64_t size) { return parse(bytes, size).error().message; };
  auto old = good, flipped = good, foreign = good;
  old[8] = std::byte{9};
  flipped[100] ^= std::byte{1};
  foreign[0] = std::byte{'X'};
  EXPECT_EQ(message(old, header.file_bytes()), "x.lilyimage: image format 9, this Lily reads 1");
  EXPECT_EQ(message(flipped, header.file_bytes()), "x.lilyimage: the header's checksum is wrong: the file is damaged");
  EXPECT_EQ(message(foreign, header.file_bytes()), "x.lilyimage: not a weight image");
  EXPECT_EQ(message({}, 0), "x.lilyimage: not a weight image");
  EXPECT_NE(message(good, header.file_bytes() - 1).find("the file is truncated"), std::string::npos);
}

TEST(Image, DifferencesAreSaidInWords) {
  const auto wanted = tiny_header();
  auto found = wanted;
  EXPECT_EQ(image_difference(found, wanted), "");
  found.source ^= 1;
  EXPECT_EQ(image_difference(found, wanted), "the checkpoint's files have changed");
  found.manifest ^= 1;
  EXPECT_EQ(image_difference(found, wanted), "config.json now describes other tensors");
  found.layout = WeightLayout::kRowMajor;
  EXPECT_EQ(image_difference(found, wanted), "it has another layout");
}

TEST(Image, FindKnowsItsTensorsOnly) {
  const auto header = tiny_header();
  const std::vector<std::byte> data(header.data_bytes);
  const WeightImage image(header, data, nullptr);
  ASSERT_NE(image.find("norm"), nullptr);
  EXPECT_EQ(image.find("norm")->cols, 64);
  EXPECT_EQ(image.find("norm")->bits, 0);
  EXPECT_EQ(image.find("norms"), nullptr);
}

}  // namespace
}  // namespace lily::test
