// A model without weights, whose passes are recorded and never run: what a pass consists of.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "backend/gpu/gpu_backend.h"
#include "model/forward.h"
#include "tests/gpu/paper_device.h"
#include "weights/synth_config.h"

namespace lily {

// The 35B or the pocket at addresses that hold nothing.
class PaperModel {
 public:
  explicit PaperModel(const Mechanisms& mechanisms = {}, const std::string& name = "35b")
      : backend_(std::make_unique<gpu::PaperDevice>(), mechanisms) {
    const auto spec = *synthetic_spec(name, 0);
    const auto config = parse_config(synthetic_config(spec), synthetic_generation_config(spec));
    const ImageHeader header = plan_image(manifest(*config), WeightLayout::kRowMajor, 0);
    weights_ = *backend_.allocate(header.data_bytes, "weights");
    const std::span data(weights_.as<const std::byte>(), weights_.bytes());
    LoadedWeights loaded;
    loaded.config = *config;
    loaded.image = WeightImage(header, data, nullptr);
    const StateLimits state{.n_sequences = 1, .max_positions = kRoom, .n_pages = 0, .n_slots = 1};
    model_ = *create_model(backend_, loaded,
                           {.state = state, .max_rows = 2048, .vocab_used = spec.vocab_rows});
  }

  const gpu::Program& record(int n_rows, HeadUse::Kind use = HeadUse::Kind::kChoose,
                             int position = 0) {
    PassControl& control = model_.buffers.control();
    control.n_rows = n_rows;
    control.n_segments = control.n_head_rows = 1;
    control.segments[0] = {.first_row = 0,
                           .n_rows = n_rows,
                           .position = position,
                           .sequence = 0,
                           .state_in = -1,
                           .state_out = 0,
                           .snapshots = -1,
                           .reserved = 0};
    EXPECT_TRUE(forward(backend_, model_, {.kind = use}).has_value());
    return *backend_.recorded({.rows_bound = n_rows,
                               .context_bound = bound_of(position + n_rows),
                               .head_blocks = 1,
                               .score = use == HeadUse::Kind::kScore});
  }

 private:
  static constexpr int kRoom = 200000;
  // As forward.cc has it: powers of two from 32,768 on, and 0 for all the room.
  static int bound_of(int positions) {
    for (const int bound : {32768, 65536, 131072}) {
      if (positions <= bound) return bound;
    }
    return 0;
  }

  gpu::GpuBackend backend_;
  Buffer weights_;
  Model model_;
};

}  // namespace lily
