// The memory plan on the 35B's sizes: what fits, by how much not, and figures that add up.
#include "engine/plan.h"

#include <gtest/gtest.h>

#include "model/pass.h"
#include "tests/engine/lazy_backend.h"
#include "tests/engine/specs.h"

namespace lily {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30;
constexpr std::uint64_t kWeights35b = 19'508'787'456;

MemoryPlan plan_for(std::uint64_t memory_bytes, int context = 0) {
  return plan_memory(spec_35b(), {.memory_bytes = memory_bytes, .weight_bytes = kWeights35b, .context_tokens = context});
}

TEST(Plan, SixteenGigabytesAreTooFewAndItSaysByHowMuch) {
  const auto plan = plan_for(16 * kGiB);
  EXPECT_FALSE(plan.fits);
  EXPECT_GT(plan.missing, 3 * kGiB);
  EXPECT_FALSE(plan.advice.empty());
  EXPECT_EQ(plan.context_tokens, 0);
}

TEST(Plan, TwentyFourAndMoreFitAndTheFiguresAddUp) {
  for (const std::uint64_t gib : {24, 32, 48, 128}) {
    const auto plan = plan_for(gib * kGiB);
    EXPECT_TRUE(plan.fits) << gib;
    EXPECT_EQ(plan.kv_per_token, 20'480u);
    EXPECT_EQ(plan.kv, plan.kv_per_token * static_cast<std::uint64_t>(plan.context_tokens));
    EXPECT_EQ(plan.total, plan.weights + plan.state + plan.scratch + plan.reserve + plan.kv);
    EXPECT_LE(plan.total, gib * kGiB);
    // The largest: another page would not fit, or the declared limit is reached.
    EXPECT_TRUE(plan.context_tokens == 262'144 || plan.total + 64 * plan.kv_per_token > gib * kGiB) << gib;
  }
  EXPECT_EQ(plan_for(48 * kGiB).context_tokens, 262'144);
}

TEST(Plan, AStateOfThe35BIsSixtyFourMegabytesAndAHalfAndThereAreTwo) {
  const auto plan = plan_for(48 * kGiB);
  // 30 layers of 32 x 128 x 128 floats and of 3 x 8,192 floats (the window is kept in f32).
  EXPECT_NEAR(static_cast<double>(plan.state), 2 * (62'914'560.0 + 30 * 3 * 8192 * 4), 65'536);
}

TEST(Plan, WithoutAnAttentionLayerAPositionCostsNothing) {
  ModelSpec spec = spec_35b();
  spec.n_layers = 1;
  spec.layer_kinds = {LayerKind::kDelta};
  const auto plan = plan_memory(spec, {.memory_bytes = 32 * kGiB, .weight_bytes = kGiB});
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.context_tokens, 262'144);
  EXPECT_FALSE(plan_memory(spec, {.memory_bytes = kGiB, .weight_bytes = kGiB}).fits);
}

TEST(Plan, TheScratchOfADeviceIsCounted) {
  const PlanRequest request{.memory_bytes = 48 * kGiB, .weight_bytes = kWeights35b};
  const auto emulator = *open_backend("emulator", {});
  PlanRequest on_gpu = request;
  on_gpu.backend_bytes = emulator->scratch_bytes(spec_35b(), request.chunk_tokens);
  EXPECT_GT(on_gpu.backend_bytes, 1u << 20);
  EXPECT_EQ(plan_memory(spec_35b(), on_gpu).scratch, plan_memory(spec_35b(), request).scratch + on_gpu.backend_bytes);
}

// A plan counts what a pass's buffers really take.
TEST(Plan, ThePlannedScratchIsWhatIsAllocated) {
  LazyBackend backend(*open_backend("cpu", {}));
  const auto buffers = PassBuffers::create(backend, spec_35b(), 16);
  ASSERT_TRUE(buffers.has_value());
  EXPECT_EQ(backend.allocated_bytes(), PassBuffers::bytes(spec_35b(), 16));
}

TEST(Plan, AContextThatWasAskedForIsKeptOrRefusedWhole) {
  EXPECT_EQ(plan_for(32 * kGiB, 1000).context_tokens, 1000);
  const auto refused = plan_for(24 * kGiB, 262'144);
  EXPECT_FALSE(refused.fits);
  EXPECT_GT(refused.missing, 0u);
}

}  // namespace
}  // namespace lily
