// How many kernels and stages a token takes: passes of the 35B, recorded without weights.
#include <gtest/gtest.h>

#include <iostream>

#include "tests/model/paper_model.h"

namespace lily {
namespace {

// 8 kernels for each of 40 layers; embedding, head and two for the choice.
constexpr std::size_t kKernels = 40 * 8 + 4;
constexpr std::size_t kMaxKernels = 330;  // What a token may take.
static_assert(kKernels <= kMaxKernels);

TEST(GpuCount, ATokenOfThe35BTakesFewKernels) {
  PaperModel model;
  const gpu::Program& decode = model.record(1);
  std::cout << "35B, one token: " << decode.launches().size() << " kernels in " << decode.stages()
            << " stages\n";
  EXPECT_EQ(decode.launches().size(), kKernels);
  EXPECT_LE(decode.stages(), decode.launches().size());
  for (const int n_rows : {8, 512, 2048}) {
    const gpu::Program& pass = model.record(n_rows);
    std::cout << "35B, " << n_rows << " rows: " << pass.launches().size() << " kernels in "
              << pass.stages() << " stages\n";
  }
}

// A card starts and ends each group, also one without positions: launches are as wide as the pass's contexts ask for.
TEST(GpuCount, AttentionHasPartsForTheContextsOfThePass) {
  PaperModel model;
  const auto parts_at = [&](int position) {
    unsigned parts = 0;
    for (const auto& launch : model.record(1, HeadUse::Kind::kChoose, position).launches()) {
      if (launch.kernel->name == std::string_view("attention_few_4")) parts = launch.grid.x;
    }
    return parts;
  };
  EXPECT_EQ(parts_at(0), 64u);
  EXPECT_EQ(parts_at(32767), 64u);
  EXPECT_EQ(parts_at(32768), 128u);
  EXPECT_EQ(parts_at(100000), 256u);
  EXPECT_EQ(parts_at(190000), 391u);  // Of 200,000 positions.
}

TEST(GpuCount, WhatEachMechanismOfDecodeSaves) {
  const std::pair<bool Mechanisms::*, std::size_t> more[] = {
      {&Mechanisms::fused_experts_up, 40 * 2},
      {&Mechanisms::fused_experts_down, 40 * 2},
      {&Mechanisms::fused_query_key, 10 * 3},
      {&Mechanisms::fused_scan_norm, 30},
      {&Mechanisms::packed_attention, 0}};
  for (const auto& [field, kernels] : more) {
    Mechanisms mechanisms;
    mechanisms.*field = false;
    EXPECT_EQ(PaperModel(mechanisms).record(1).launches().size(), kKernels + kernels);
  }
  // Products of gate and of up may run side by side.
  const Mechanisms concurrent{.fused_experts_up = false};
  const Mechanisms serial{.concurrent_dispatch = false, .fused_experts_up = false};
  EXPECT_EQ(PaperModel(concurrent).record(1).stages(), kKernels + 40);
  EXPECT_EQ(PaperModel(serial).record(1).stages(), kKernels + 80);
}

}  // namespace
}  // namespace lily
