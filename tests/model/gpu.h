// The pocket checkpoint on the emulator, pass by pass.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "backend/gpu/emulator_device.h"
#include "backend/gpu/gpu_backend.h"
#include "model/forward.h"

namespace lily {

// Consecutive tokens of one sequence. Its state is read from one slot and left in another.
struct Part {
  int sequence, position, n_rows, from, to;
  int snapshots = -1;
};

// All that a pass leaves behind, bit for bit.
struct Left {
  std::vector<float> target_log_prob, top_log_probs;
  std::vector<std::int32_t> top_ids;
  bool operator==(const Left&) const = default;
};

class PocketOnGpu {
 public:
  static constexpr int kSequences = 3, kSlots = 16, kPositions = 128, kTop = 20;

  static Result<std::unique_ptr<PocketOnGpu>> open(const gpu::EmulatorOptions& options) {
    std::unique_ptr<PocketOnGpu> out(new PocketOnGpu);
    LILY_TRY(auto device, gpu::EmulatorDevice::create(options));
    out->device_ = device.get();
    out->backend_ = std::make_unique<gpu::GpuBackend>(std::move(device));
    LILY_TRY(const auto loaded, load_weights(Path(LILY_SOURCE_DIR) / "models/pocket",
                                             {.layout = out->backend_->info().layout,
                                              .pack = false,
                                              .cache_folder = {},
                                              .progress = {}}));
    const StateLimits state{
        .n_sequences = kSequences, .max_positions = kPositions, .n_pages = 0, .n_slots = kSlots};
    LILY_TRY(auto model, create_model(*out->backend_, loaded,
                                      {.state = state, .max_rows = 64, .vocab_used = 4096}));
    out->model_ = std::make_unique<Model>(std::move(model));
    return out;
  }

  gpu::EmulatorDevice& device() { return *device_; }
  gpu::GpuBackend& backend() { return *backend_; }
  static PassKey key(int n_rows) {
    return {.rows_bound = n_rows,
            .head_blocks = (n_rows + kHeadBlockRows - 1) / kHeadBlockRows,
            .score = true,
            .n_top = kTop};
  }

  // Scores every row. The tokens are a fixed series of sequence and position.
  Left pass(const std::vector<Part>& parts) {
    model_->buffers.write_targets(*backend_, name_rows(parts));
    const int n_rows = model_->buffers.control().n_rows;
    run({.kind = HeadUse::Kind::kScore, .n_top = kTop});
    auto rows = *model_->buffers.read_score(*backend_, n_rows, kTop);
    return {rows.target_log_prob, rows.top_log_probs, rows.top_ids};
  }

  // Chooses the token after each row and returns the first row's.
  ChosenToken choose(const Part& part, float temperature) {
    name_rows({part});
    const auto rows = static_cast<std::size_t>(model_->weights.spec.vocab_rows);
    const Buffer control = *backend_->allocate(sizeof(SamplingControl), "sampling control");
    const Buffer generated = *backend_->allocate(rows * sizeof(std::int32_t), "token counts");
    const Buffer in_prompt = *backend_->allocate(rows, "prompt tokens");
    SamplingControl sampling{};
    sampling.generated = generated.as<std::int32_t>();
    sampling.in_prompt = in_prompt.as<std::uint8_t>();
    sampling.temperature = temperature;
    sampling.top_p = 0.9f;
    sampling.repetition_penalty = 1.1f;
    sampling.n_top = 3;
    backend_->write(control, 0, std::as_bytes(std::span(&sampling, 1)));
    model_->buffers.write_sampling(*backend_, 0, control.as<SamplingControl>());
    run({.kind = HeadUse::Kind::kChoose});
    return *model_->buffers.read_chosen(*backend_, 0);
  }

  std::vector<std::byte> slot(int index) {
    std::vector<std::byte> bytes(model_->state.slot_bytes());
    EXPECT_TRUE(model_->state.export_slot(*backend_, index, bytes).has_value());
    return bytes;
  }
  std::vector<std::byte> kv(int sequence, int n_positions) {
    const auto pages = model_->state.share(sequence, n_positions);
    std::vector<std::byte> bytes(pages.size() * model_->state.page_bytes());
    EXPECT_TRUE(model_->state.export_pages(*backend_, pages, bytes).has_value());
    model_->state.release(pages);
    return bytes;
  }

 private:
  PocketOnGpu() = default;

  void run(const HeadUse& use) {
    const auto done = backend_->wait(*forward(*backend_, *model_, use));
    EXPECT_TRUE(done.has_value()) << done.error().message;
  }

  // Fills the pass's control, all rows being head rows, and returns the token that follows each.
  std::vector<std::int32_t> name_rows(const std::vector<Part>& parts) {
    PassControl& control = model_->buffers.control();
    control.n_rows = control.n_segments = 0;
    std::vector<std::int32_t> next;
    for (const Part& part : parts) {
      const int end = part.position + part.n_rows;
      EXPECT_TRUE(model_->state.reserve(*backend_, part.sequence, end).has_value());
      control.segments[control.n_segments++] = {.first_row = control.n_rows,
                                                .n_rows = part.n_rows,
                                                .position = part.position,
                                                .sequence = part.sequence,
                                                .state_in = part.position == 0 ? -1 : part.from,
                                                .state_out = part.to,
                                                .snapshots = part.snapshots,
                                                .reserved = 0};
      for (int i = part.position; i < end; ++i) {
        control.head_rows[control.n_rows] = control.n_rows;
        control.tokens[control.n_rows++] = token(part.sequence, i);
        next.push_back(token(part.sequence, i + 1));
      }
    }
    control.n_head_rows = control.n_rows;
    return next;
  }

  static int token(int sequence, int position) {
    return 260 + (position * 37 + sequence * 411) % 2000;
  }

  gpu::EmulatorDevice* device_ = nullptr;
  std::unique_ptr<gpu::GpuBackend> backend_;
  std::unique_ptr<Model> model_;
};

}  // namespace lily
