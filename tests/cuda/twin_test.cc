// The card beside the emulator, launch by launch: what real passes give a kernel gives the same words on both. Matrix units add in an
// order of their own.
#include <gtest/gtest.h>

#include <iostream>
#include <set>
#include <string>
#include <string_view>

#include "backend/gpu/cuda/open.h"
#include "backend/gpu/gpu_backend.h"
#include "backend/gpu/twin_device.h"
#include "tests/engine/pocket.h"

namespace lily::gpu {
namespace {

struct CardRun {
  int chunk_tokens;
  Mechanisms mechanisms = {};
};

void run_beside_the_emulator(const CardRun& run, Comparisons& comparisons) {
  auto options = pocket_options();
  options.chunk_tokens = run.chunk_tokens;
  options.context_tokens = 256;
  options.make_backend = [&]() -> Result<std::unique_ptr<Backend>> {
    LILY_TRY(auto judge, EmulatorDevice::create({}));
    LILY_TRY(auto card, cuda::open_device());
    auto twin = std::make_unique<TwinDevice>(std::move(judge), std::move(card), comparisons);
    return std::make_unique<GpuBackend>(std::move(twin), run.mechanisms);
  };
  const auto engine = open_or_fail(options);
  const auto result = engine->session().generate(request_of(ask(*engine, "What is the capital of France?"), 2));
  ASSERT_TRUE(result.has_value()) << result.error().message;
}

const std::set<std::string_view> kOnMatrixUnits{"attention_many", "experts_tile_down", "experts_tile_up", "linear_tile_add",
                                                "linear_tile_norm"};

TEST(CardBesideEmulator, EveryKernelComputesTheSameWords) {
  if (const auto card = cuda::open_device(); !card) GTEST_SKIP() << "no CUDA here: " << card.error().message;
  Comparisons comparisons;
  constexpr Mechanisms kApart{.fused_experts_up = false,
                              .fused_experts_down = false,
                              .fused_query_key = false,
                              .fused_scan_norm = false,
                              .packed_attention = false,
                              .fused_head_choose = false};
  for (const CardRun& run : {CardRun{64}, CardRun{1}, CardRun{4, kApart}, CardRun{64, {.matrix_units = false}}}) {
    run_beside_the_emulator(run, comparisons);
  }
  for (const auto& [name, kernel] : comparisons) {
    std::cout << name << ": " << kernel.n_launches << " launches, " << kernel.n_words << " words, " << kernel.n_different
              << " of them different, floats by at most " << kernel.worst << "\n";
    EXPECT_EQ(kernel.n_different, 0u) << name;
    EXPECT_LE(kernel.worst, kOnMatrixUnits.contains(name) ? 1e-4 : 0.0) << name;
  }
}

}  // namespace
}  // namespace lily::gpu
