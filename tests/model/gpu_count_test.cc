// How many kernels and stages a token takes: passes of the 35B, recorded without weights.
#include <gtest/gtest.h>

#include <iostream>

#include "backend/gpu/gpu_backend.h"
#include "model/forward.h"
#include "tests/gpu/paper_device.h"
#include "weights/synth_config.h"

namespace lily {
namespace {

// 8 kernels for each of 40 layers; embedding, head and two for the choice.
constexpr std::size_t kKernels = 40 * 8 + 4;
constexpr std::size_t kMaxKernels = 330;  // What a token may take.
static_assert(kKernels <= kMaxKernels);

// The 35B at addresses that hold nothing.
class PaperModel {
 public:
  explicit PaperModel(const Mechanisms& mechanisms = {})
      : backend_(std::make_unique<gpu::PaperDevice>(), mechanisms) {
    const auto spec = *synthetic_spec("35b", 0);
    const auto config = parse_config(synthetic_config(spec), synthetic_generation_config(spec));
    const ImageHeader header = plan_image(manifest(*config), WeightLayout::kRowMajor, 0);
    weights_ = *backend_.allocate(header.data_bytes, "weights");
    const std::span data(weights_.as<const std::byte>(), weights_.bytes());
    LoadedWeights loaded;
    loaded.config = *config;
    loaded.image = WeightImage(header, data, nullptr);
    const StateLimits state{.n_sequences = 1, .max_positions = 65536, .n_pages = 0, .n_slots = 1};
    model_ = *create_model(backend_, loaded,
                           {.state = state, .max_rows = 2048, .vocab_used = spec.vocab_rows});
  }

  const gpu::Program& record(int n_rows) {
    PassControl& control = model_.buffers.control();
    control.n_rows = n_rows;
    control.n_segments = control.n_head_rows = 1;
    control.segments[0] = {.first_row = 0,
                           .n_rows = n_rows,
                           .position = 0,
                           .sequence = 0,
                           .state_in = -1,
                           .state_out = 0,
                           .snapshots = -1,
                           .reserved = 0};
    EXPECT_TRUE(forward(backend_, model_, {.kind = HeadUse::Kind::kChoose}).has_value());
    return *backend_.recorded({.rows_bound = n_rows, .head_blocks = 1});
  }

 private:
  gpu::GpuBackend backend_;
  Buffer weights_;
  Model model_;
};

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
