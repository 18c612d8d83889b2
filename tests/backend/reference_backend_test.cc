// Memory, options and copies of the reference backend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>

#include "tests/backend/reference.h"

namespace lily::cases {
namespace {

using ::testing::HasSubstr;

TEST(ReferenceBackend, SaysWhatItIs) {
  const BackendInfo& info = reference().info();
  EXPECT_EQ(info.name, "reference");
  EXPECT_EQ(info.layout, WeightLayout::kRowMajor);
  EXPECT_EQ(info.kv_element_bytes, 4);
}

TEST(ReferenceBackend, RefusesAnInstructionSetByName) {
  const auto opened =
      reference::open({.threads = 0, .isa = "avx2", .activations = Activations::kF32});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(opened.error().message, HasSubstr("avx2"));
}

TEST(ReferenceBackend, PreparesForOneToTheLargestPass) {
  EXPECT_TRUE(reference().prepare(pocket_spec(), 1).has_value());
  for (const int rows : {0, -1, kMaxPassRows + 1}) {
    const auto prepared = reference().prepare(pocket_spec(), rows);
    ASSERT_FALSE(prepared.has_value());
    EXPECT_THAT(prepared.error().message, HasSubstr(std::to_string(rows)));
  }
}

TEST(ReferenceBackend, AllocatesZeroedAlignedMemory) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{100'000}}) {
    const auto buffer = reference().allocate(bytes, "rows");
    ASSERT_TRUE(buffer.has_value());
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->address()) % 64, 0u);
    const std::span all(buffer->as<unsigned char>(), bytes);
    EXPECT_TRUE(std::all_of(all.begin(), all.end(), [](unsigned char b) { return b == 0; }));
  }
}

TEST(ReferenceBackend, NamesTheBufferThatDoesNotFit) {
  const auto buffer = reference().allocate(std::size_t{1} << 60, "the cache");
  ASSERT_FALSE(buffer.has_value());
  EXPECT_EQ(buffer.error().code, ErrorCode::kNoMemory);
  EXPECT_THAT(buffer.error().message, HasSubstr("the cache: 1152921504606846976 bytes"));
}

TEST(ReferenceBackend, AdoptsAlignedBytesAndKeepsTheirOwner) {
  struct alignas(64) Image {
    std::array<std::byte, 128> bytes{};
  };
  auto image = std::make_shared<Image>();
  const std::weak_ptr<Image> watched = image;
  auto buffer = reference().adopt(image->bytes, image);
  ASSERT_TRUE(buffer.has_value());
  EXPECT_EQ(buffer->address(), image->bytes.data());
  image.reset();
  EXPECT_FALSE(watched.expired());
  *buffer = Buffer();
  EXPECT_TRUE(watched.expired());
}

TEST(ReferenceBackend, RefusesBytesThatAreNotAligned) {
  alignas(64) std::array<std::byte, 128> bytes{};
  const auto buffer = reference().adopt(std::span(bytes).subspan(8), nullptr);
  ASSERT_FALSE(buffer.has_value());
  EXPECT_THAT(buffer.error().message, HasSubstr("8 bytes past"));
}

TEST(ReferenceBackend, WritesReadsAndCopies) {
  const auto buffer = reference().allocate(64, "a test's buffer");
  ASSERT_TRUE(buffer.has_value());
  const std::array<std::byte, 3> bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
  reference().write(*buffer, 5, bytes);
  ASSERT_TRUE(reference().begin({}));
  reference().copy({buffer->as<std::byte>(5), buffer->as<std::byte>(40), 3});
  ASSERT_TRUE(reference().wait(reference().submit()).has_value());
  std::array<std::byte, 5> got{};
  ASSERT_TRUE(reference().read(*buffer, 39, got).has_value());
  EXPECT_EQ(got, (std::array<std::byte, 5>{std::byte{0}, std::byte{1}, std::byte{2}, std::byte{3},
                                           std::byte{0}}));
}

}  // namespace
}  // namespace lily::cases
