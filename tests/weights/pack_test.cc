// Packing against plain decoders: every weight of the tiny and the pocket checkpoint, both layouts, in memory and on disk.
#include <gtest/gtest.h>

#include <cstring>

#include "base/bf16.h"
#include "tests/weights/support.h"
#include "weights/load.h"

namespace lily::test {
namespace {

// Weights that differ between source and image, over all rows and every `step`-th column.
std::int64_t different_weights(const Checkpoint& source, const ManifestEntry& entry, const TensorView& view,
                               WeightLayout layout, int step) {
  const SourceMatrix matrix(source, entry);
  std::int64_t bad = 0;
  for (std::int64_t row = 0; row < entry.rows; ++row) {
    for (std::int64_t col = row % step; col < entry.cols; col += step) {
      bad += matrix.weight(row, col) != image_weight(view, layout, row, col);
    }
  }
  return bad;
}

std::int64_t different_floats(const Checkpoint& source, const ManifestEntry& entry, const TensorView& view) {
  const auto bytes = source.find(entry.source).bytes();
  std::int64_t bad = 0;
  for (std::int64_t i = 0; i < entry.rows * entry.cols; ++i) {
    Bf16 bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    float value = 0;
    std::memcpy(&value, view.data + 4 * i, 4);
    bad += value != bf16_to_float(bits);
  }
  return bad;
}

void expect_image_equals_source(const Path& folder, const LoadedWeights& loaded, WeightLayout layout, int step) {
  const auto source = Checkpoint::open(folder);
  ASSERT_TRUE(source.has_value());
  for (const auto& entry : manifest(loaded.config)) {
    const TensorView* view = loaded.image.find(entry.name);
    ASSERT_NE(view, nullptr) << entry.name;
    EXPECT_EQ(view->rows, entry.rows) << entry.name;
    EXPECT_EQ(view->cols, entry.cols) << entry.name;
    EXPECT_EQ(view->bits, entry.bits) << entry.name;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view->data) % kSectionAlign, 0u) << entry.name;
    const auto bad = entry.quantised() ? different_weights(*source, entry, *view, layout, step)
                                       : different_floats(*source, entry, *view);
    EXPECT_EQ(bad, 0) << entry.name;
  }
}

class Packing : public testing::TestWithParam<WeightLayout> {};

TEST_P(Packing, KeepsEveryWeightOfATinyCheckpoint) {
  TempFolder temp;
  TinyCheckpoint(5).write(temp.path());
  for (const bool pack : {true, false}) {
    const auto loaded = load_weights(temp.path(), {.layout = GetParam(), .pack = pack});
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    EXPECT_EQ(loaded->image_path.empty(), !pack);
    expect_image_equals_source(temp.path(), *loaded, GetParam(), 1);
  }
}

TEST_P(Packing, KeepsTheWeightsOfThePocketCheckpoint) {
  const auto loaded = load_weights(pocket(), {.layout = GetParam(), .pack = false});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  expect_image_equals_source(pocket(), *loaded, GetParam(), 7);
}

TEST_P(Packing, GivesTheSameBytesInMemoryAndOnDisk) {
  TempFolder temp;
  TinyCheckpoint().write(temp.path());
  const auto file = load_weights(temp.path(), {.layout = GetParam()});
  const auto memory = load_weights(temp.path(), {.layout = GetParam(), .pack = false});
  ASSERT_TRUE(file.has_value() && memory.has_value());
  ASSERT_EQ(file->image.bytes().size(), memory->image.bytes().size());
  EXPECT_EQ(std::memcmp(file->image.bytes().data(), memory->image.bytes().data(), file->image.bytes().size()), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file->image.bytes().data()) % 4096, 0u);
}

TEST_P(Packing, FillsMissingRowsOfABlockWithZeros) {
  if (GetParam() != WeightLayout::kInterleaved16) GTEST_SKIP() << "only the interleaved layout pads rows";
  TempFolder temp;
  TinyCheckpoint().write(temp.path());
  const auto loaded = load_weights(temp.path(), {.layout = GetParam(), .pack = false});
  ASSERT_TRUE(loaded.has_value());
  const TensorView* gate = loaded->image.find("layers.0.mlp.shared_expert_gate");  // One row.
  ASSERT_EQ(gate->bytes, record_bytes(8));
  for (std::int64_t row = 1; row < 16; ++row) {
    for (std::int64_t col = 0; col < 64; ++col) EXPECT_EQ(image_weight(*gate, GetParam(), row, col), 0.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Packing, testing::Values(WeightLayout::kRowMajor, WeightLayout::kInterleaved16),
                         [](const auto& each) { return std::string(layout_name(each.param)); });

}  // namespace
}  // namespace lily::test
