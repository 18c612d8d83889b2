// The backend's bookkeeping: what is recorded, replayed, dropped and told.
#include "backend/gpu/gpu_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/gpu/paper_device.h"

namespace lily::gpu {
namespace {

using ::testing::ElementsAre;

constexpr int kMaxRows = 128;
constexpr std::int64_t kBufferBytes = 256;
const Error kRefused{ErrorCode::kDevice, "refused"};

ModelSpec small_spec() {
  ModelSpec spec;
  spec.n_layers = 2;
  spec.layer_kinds = {LayerKind::kDelta, LayerKind::kAttention};
  spec.hidden = 256;
  spec.n_q_heads = 2;
  spec.n_kv_heads = 1;
  spec.n_key_heads = 1;
  spec.n_value_heads = 2;
  spec.n_experts = 16;
  spec.n_chosen = 2;
  spec.expert_width = spec.shared_width = 64;
  spec.vocab_rows = 512;
  return spec;
}

class GpuBackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = std::make_unique<PaperDevice>();
    device_ = device.get();
    backend_ = std::make_unique<GpuBackend>(std::move(device));
    ASSERT_TRUE(backend_->prepare(small_spec(), kMaxRows).has_value());
    for (Buffer* buffer : {&a_, &b_, &c_}) *buffer = *backend_->allocate(kBufferBytes, "bytes");
  }

  // A pass that copies a to b and b to c, where it has to be named. Was it?
  bool pass(const PassKey& key) {
    const bool named = backend_->begin(key);
    if (named) {
      backend_->copy({a_.address(), b_.address(), kBufferBytes});
      backend_->copy({b_.address(), c_.address(), kBufferBytes});
    }
    ticket_ = backend_->submit();
    return named;
  }
  static PassKey rows(int n) { return {.rows_bound = n}; }

  PaperDevice* device_ = nullptr;
  std::unique_ptr<GpuBackend> backend_;
  Buffer a_, b_, c_;
  Ticket ticket_ = 0;
};

TEST_F(GpuBackendTest, APassIsNamedOnceAndReplayedAfterwards) {
  EXPECT_TRUE(pass(rows(1)));
  EXPECT_FALSE(pass(rows(1)));
  EXPECT_FALSE(pass(rows(1)));
  EXPECT_EQ(device_->builds, 1);
  EXPECT_THAT(device_->submitted, ElementsAre(1u, 2u, 3u));
  EXPECT_EQ(backend_->launches(), 6u);
  EXPECT_EQ(backend_->barriers(), 3u);
  ASSERT_NE(backend_->recorded(rows(1)), nullptr);
  EXPECT_EQ(backend_->recorded(rows(1))->stages(), 2u);
}

TEST_F(GpuBackendTest, TheLastPassIsTimedByTheStepsThatItsLaunchesAreOf) {
  pass(rows(1));
  device_->times = {.launches = {{"fast", {0, 1}, 0.25}, {"before", {}, 0.5}}, .seconds = 0.75};
  const auto times = backend_->time_last_pass(3);
  ASSERT_TRUE(times.has_value()) << times.error().message;
  EXPECT_EQ(times->seconds, 0.75);
  ASSERT_EQ(times->pieces.size(), 2u);
  EXPECT_EQ(times->pieces[0].kernel, "fast");
  ASSERT_EQ(times->pieces[0].work.size(), 2u);
  EXPECT_EQ(times->pieces[0].work[1].step, "copy");
  EXPECT_EQ(times->pieces[0].work[1].kernel, "copy_words");
  EXPECT_TRUE(times->pieces[1].work.empty());
}

TEST_F(GpuBackendTest, EveryPartOfAKeyTellsPassesApart) {
  const float log_probs = 0;
  const std::int32_t tokens = 0;
  const std::array keys{rows(1),
                        rows(2),
                        PassKey{.rows_bound = 1, .head_blocks = 1},
                        PassKey{.rows_bound = 1, .control_block = 1},
                        PassKey{.rows_bound = 1, .score = true},
                        PassKey{.rows_bound = 1, .n_top = 2},
                        PassKey{.rows_bound = 1, .reference_log_probs = &log_probs},
                        PassKey{.rows_bound = 1, .next_tokens = &tokens},
                        PassKey{.rows_bound = 1, .piece = 1},
                        PassKey{.copy_from = 1, .copy_to = 2},
                        PassKey{.copy_from = 2, .copy_to = 1}};
  for (const PassKey& key : keys) EXPECT_TRUE(pass(key));
  for (const PassKey& key : keys) EXPECT_FALSE(pass(key));
}

TEST_F(GpuBackendTest, ARecordingDiesWithABufferThatItNames) {
  pass(rows(1));
  { const Buffer unnamed = *backend_->allocate(kBufferBytes, "bytes"); }
  EXPECT_FALSE(pass(rows(1)));
  c_ = *backend_->allocate(kBufferBytes, "bytes");
  EXPECT_TRUE(pass(rows(1)));
}

TEST_F(GpuBackendTest, TheRecordingUnusedForLongestGoes) {
  for (int n = 1; n <= static_cast<int>(GpuBackend::kMaxRecordings); ++n) pass(rows(n));
  EXPECT_FALSE(pass(rows(1)));
  EXPECT_TRUE(pass(rows(static_cast<int>(GpuBackend::kMaxRecordings) + 1)));
  EXPECT_FALSE(pass(rows(1)));
  EXPECT_TRUE(pass(rows(2)));
}

TEST_F(GpuBackendTest, AProgramThatTheDeviceRefusesIsToldByWaitAndTriedAgain) {
  device_->build_error = kRefused;
  EXPECT_TRUE(pass(rows(1)));
  EXPECT_EQ(backend_->wait(ticket_).error().message, "refused");
  EXPECT_TRUE(device_->submitted.empty());
  EXPECT_TRUE(pass(rows(1)));
  EXPECT_TRUE(backend_->wait(ticket_).has_value());
}

TEST_F(GpuBackendTest, AReplayThatFailsIsToldByWait) {
  pass(rows(1));
  device_->wait_error = kRefused;
  EXPECT_EQ(backend_->wait(ticket_).error().code, ErrorCode::kDevice);
  EXPECT_TRUE(backend_->wait(ticket_).has_value());
}

TEST_F(GpuBackendTest, AnAbandonedPassIsNeitherRunNorKept) {
  ASSERT_TRUE(backend_->begin(rows(1)));
  backend_->copy({a_.address(), b_.address(), kBufferBytes});
  backend_->abandon();
  EXPECT_TRUE(device_->submitted.empty());
  EXPECT_TRUE(pass(rows(1)));
}

TEST_F(GpuBackendTest, RefusesWhatItCannotHold) {
  EXPECT_EQ(backend_->prepare(small_spec(), 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(backend_->prepare(small_spec(), kMaxPassRows + 1).error().code,
            ErrorCode::kInvalidArgument);
  alignas(64) const std::array<std::byte, 128> bytes{};
  EXPECT_TRUE(backend_->adopt(bytes, nullptr).has_value());
  EXPECT_EQ(backend_->adopt(std::span(bytes).subspan(16), nullptr).error().code,
            ErrorCode::kInvalidArgument);
}

// Experts of 16 rows, routed by the host.
class HostRouting : public ::testing::Test {
 protected:
  static constexpr int kRows = 16;

  void SetUp() override {
    auto device = std::make_unique<PaperDevice>();
    device_ = device.get();
    backend_ =
        std::make_unique<GpuBackend>(std::move(device), Mechanisms{.route_on_device = false});
    ASSERT_TRUE(backend_->prepare(small_spec(), kMaxRows).has_value());
    memory_ = *backend_->allocate(1 << 22, "everything");
  }
  QuantMatrix matrix(int rows) {
    auto* const scales = memory_.as<std::uint16_t>(1 << 20);
    return {memory_.as<std::byte>(1 << 21),
            scales,
            scales,
            rows,
            small_spec().hidden,
            4,
            static_cast<std::uint32_t>(WeightLayout::kRowMajor)};
  }
  Ticket experts_up() {
    const int width = small_spec().expert_width, n_experts = small_spec().n_experts;
    if (backend_->begin({.rows_bound = kRows})) {
      backend_->experts_up({.control = memory_.as<PassControl>(),
                            .x = memory_.as<float>(1 << 18),
                            .experts = memory_.as<std::int32_t>(1 << 17),
                            .gate = matrix(width * n_experts),
                            .up = matrix(width * n_experts),
                            .shared_gate = matrix(width),
                            .shared_up = matrix(width),
                            .act = memory_.as<float>(1 << 19),
                            .shared_act = memory_.as<float>((1 << 19) + (1 << 18)),
                            .n_experts = n_experts,
                            .n_chosen = 2});
    }
    return backend_->submit();
  }

  PaperDevice* device_ = nullptr;
  std::unique_ptr<GpuBackend> backend_;
  Buffer memory_;
};

TEST_F(HostRouting, ThePassGoesToTheDeviceInTwoPartsWithTheHostBetween) {
  EXPECT_TRUE(backend_->wait(experts_up()).has_value());
  EXPECT_TRUE(backend_->wait(experts_up()).has_value());
  EXPECT_EQ(device_->builds, 2);
  EXPECT_THAT(device_->submitted, ElementsAre(1u, 2u, 3u, 4u));
}

TEST_F(HostRouting, WhatFailsBeforeTheHostsPartIsToldAndTheRestNotSubmitted) {
  device_->wait_error = kRefused;
  const Ticket failed = experts_up();
  EXPECT_THAT(device_->submitted, ElementsAre(1u));
  EXPECT_EQ(backend_->wait(failed).error().message, "refused");
  EXPECT_TRUE(backend_->wait(experts_up()).has_value());
}

TEST_F(HostRouting, ExpertsThatDoNotExistAreAnError) {
  device_->read_word = kRows;  // So many rows, and this expert for each.
  const Error error = backend_->wait(experts_up()).error();
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_THAT(error.message, ::testing::HasSubstr("expert 16 of 16"));
}

TEST_F(GpuBackendTest, KernelsThatDoNotLoadAreToldByPrepare) {
  auto device = std::make_unique<PaperDevice>();
  device->load_error = kRefused;
  GpuBackend other(std::move(device));
  EXPECT_EQ(other.prepare(small_spec(), kMaxRows).error().message, "refused");
  EXPECT_TRUE(other.prepare(small_spec(), kMaxRows).has_value());
}

}  // namespace
}  // namespace lily::gpu
