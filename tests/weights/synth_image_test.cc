// A synthetic image made in memory is the one that packing the synthetic checkpoint gives.
#include "weights/synth_image.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/weights/support.h"
#include "weights/synth.h"
#include "weights/synth_config.h"

namespace lily {
namespace {

TEST(SynthImage, IsWhatPackingTheCheckpointGives) {
  const TempFolder folder;
  ASSERT_TRUE(write_synthetic_checkpoint({.spec = "pocket", .layers = 4, .seed = 3, .out = folder.path() / "m"}).has_value());
  const ModelSpec spec = synthetic_spec("pocket", 4).value();
  for (const WeightLayout layout : {WeightLayout::kRowMajor, WeightLayout::kInterleaved16}) {
    const auto packed = load_weights(folder.path() / "m", {.layout = layout, .pack = false});
    const auto made = synthetic_weights(spec, layout, 3);
    ASSERT_TRUE(packed.has_value()) << packed.error().message;
    ASSERT_TRUE(made.has_value()) << made.error().message;
    EXPECT_TRUE(std::ranges::equal(packed->image.bytes(), made->image.bytes()));
    EXPECT_EQ(made->config.spec.n_layers, 4);
    EXPECT_TRUE(made->image.header().complete());
  }
}

}  // namespace
}  // namespace lily
