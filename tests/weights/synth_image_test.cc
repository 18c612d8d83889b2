// A synthetic image made in memory is the one that packing the synthetic checkpoint gives.
#include "weights/synth_image.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/weights/support.h"
#include "weights/synth.h"
#include "weights/synth_config.h"

namespace lily::test {
namespace {

TEST(SynthImage, IsWhatPackingTheCheckpointGives) {
  const TempFolder folder;
  SynthOptions options;
  options.spec = "pocket";
  options.layers = 4;
  options.seed = 3;
  options.out = folder.path() / "m";
  ASSERT_TRUE(write_synthetic_checkpoint(options).has_value());
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
}  // namespace lily::test
