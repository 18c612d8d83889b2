// States and pages on the pocket checkpoint: what is exported and imported again, copied or cut back continues with the same bits.
#include "model/state.h"

#include <gtest/gtest.h>

#include <numeric>

#include "model/forward.h"

namespace lily {
namespace {

constexpr int kLive = 0, kOther = 1;

class StateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    backend_ = *open_backend("cpu", {});
    const auto loaded = load_weights(Path(LILY_SOURCE_DIR) / "models/pocket",
                                     {.layout = backend_->info().layout, .pack = false, .cache_folder = {}, .progress = {}});
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    const StateLimits limits{.n_sequences = 2, .max_positions = 256, .n_pages = 6, .n_slots = 2};
    auto model = create_model(*backend_, *loaded, {.state = limits, .max_rows = 128, .vocab_used = 4096});
    ASSERT_TRUE(model.has_value()) << model.error().message;
    model_ = std::make_unique<Model>(*std::move(model));
  }

  // Feeds n tokens (a fixed series of position) and returns the log-probability of token 300 after the last.
  float feed(int sequence, int slot, int position, int n) {
    EXPECT_TRUE(model_->state.reserve(*backend_, sequence, position + n).has_value());
    PassControl& control = model_->buffers.control();
    control.n_rows = n;
    control.n_segments = 1;
    control.segments[0] = {.first_row = 0, .n_rows = n, .position = position, .sequence = sequence,
                           .state_in = position == 0 ? -1 : slot, .state_out = slot, .snapshots = -1, .reserved = 0};
    for (int i = 0; i < n; ++i) control.tokens[i] = 260 + (position + i) * 37 % 2000;
    control.n_head_rows = 1;
    control.head_rows[0] = n - 1;
    return score(1)[0];
  }

  // Runs the pass; the log-probability of token 300 after each head row.
  std::vector<float> score(int n_rows) {
    model_->buffers.write_targets(*backend_, std::vector<std::int32_t>(static_cast<std::size_t>(n_rows), 300));
    const auto ticket = forward(*backend_, *model_, {.kind = HeadUse::Kind::kScore});
    EXPECT_TRUE(ticket.has_value() && backend_->wait(*ticket).has_value());
    const auto rows = model_->buffers.read_score(*backend_, n_rows, 0);
    EXPECT_TRUE(rows.has_value());
    return rows->target_log_prob;
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
};

TEST_F(StateTest, WhatIsExportedAndImportedContinuesWithTheSameBits) {
  feed(0, kLive, 0, 100);
  ModelState& state = model_->state;
  std::vector<std::byte> slot(state.slot_bytes());
  ASSERT_TRUE(state.export_slot(*backend_, kLive, slot).has_value());
  const auto pages = state.share(0, 100);
  std::vector<std::byte> kv(pages.size() * state.page_bytes());
  ASSERT_TRUE(state.export_pages(*backend_, pages, kv).has_value());
  state.release(pages);
  const float expected = feed(0, kLive, 100, 5);
  // Another sequence with other pages, and a slot that held nothing.
  const auto others = state.take(2);
  ASSERT_TRUE(others.has_value());
  state.import_pages(*backend_, *others, kv);
  ASSERT_TRUE(state.adopt(*backend_, 1, *others, 100).has_value());
  state.release(*others);
  state.import_slot(*backend_, kOther, slot);
  EXPECT_EQ(feed(1, kOther, 100, 5), expected);
}

// Two sequences go on from the same positions, each its own way, and neither writes where the other or who holds the pages reads.
TEST_F(StateTest, SharedPagesAreReadByAllAndWrittenByNone) {
  feed(0, kLive, 0, 70);
  ModelState& state = model_->state;
  ASSERT_TRUE(state.copy_slot(*backend_, kLive, kOther).has_value());
  const auto kept = state.share(0, 70);
  const float expected = feed(0, kLive, 70, 5);
  ASSERT_TRUE(state.adopt(*backend_, 1, kept, 70).has_value());
  EXPECT_EQ(state.free_pages(), 6 - 3);  // The first page is shared, the second was copied.
  state.truncate(0, 0);
  ASSERT_TRUE(state.copy_slot(*backend_, kOther, kLive).has_value());
  feed(1, kOther, 70, 40);
  state.truncate(1, 0);
  ASSERT_TRUE(state.adopt(*backend_, 1, kept, 70).has_value());
  EXPECT_EQ(feed(1, kLive, 70, 5), expected);
  state.truncate(1, 0);
  state.release(kept);
  EXPECT_EQ(state.free_pages(), 6);
}

TEST_F(StateTest, ACopiedSlotWithPagesCutBackContinuesWithTheSameBits) {
  feed(0, kLive, 0, 70);
  ASSERT_TRUE(model_->state.copy_slot(*backend_, kLive, kOther).has_value());
  const float expected = feed(0, kLive, 70, 30);
  model_->state.truncate(0, 70);
  EXPECT_EQ(feed(0, kOther, 70, 30), expected);
}

TEST_F(StateTest, PagesAreSharedAndRunOutWithAMessage) {
  ASSERT_TRUE(model_->state.reserve(*backend_, 0, 256).has_value());
  ASSERT_TRUE(model_->state.reserve(*backend_, 1, 128).has_value());
  const auto refused = model_->state.reserve(*backend_, 1, 129);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoMemory);
  model_->state.truncate(0, 64);
  EXPECT_TRUE(model_->state.reserve(*backend_, 1, 129).has_value());
}

// The passes of two sequences, alone and in one pass: rows do not see each other.
TEST_F(StateTest, TwoSequencesInOnePassEqualEachAlone) {
  const float first = feed(0, kLive, 0, 40);
  const float second = feed(1, kOther, 0, 9);
  model_->state.truncate(0, 0);
  model_->state.truncate(1, 0);
  ASSERT_TRUE(model_->state.reserve(*backend_, 0, 40).has_value());
  ASSERT_TRUE(model_->state.reserve(*backend_, 1, 9).has_value());
  PassControl& control = model_->buffers.control();
  control.n_rows = 49;
  control.n_segments = 2;
  control.segments[0] = {.first_row = 0, .n_rows = 40, .position = 0, .sequence = 0, .state_in = -1, .state_out = kLive,
                         .snapshots = -1, .reserved = 0};
  control.segments[1] = {.first_row = 40, .n_rows = 9, .position = 0, .sequence = 1, .state_in = -1, .state_out = kOther,
                         .snapshots = -1, .reserved = 0};
  for (int i = 0; i < 49; ++i) control.tokens[i] = 260 + (i < 40 ? i : i - 40) * 37 % 2000;
  control.n_head_rows = 2;
  control.head_rows[0] = 39;
  control.head_rows[1] = 48;
  EXPECT_EQ(score(2), (std::vector<float>{first, second}));
}

}  // namespace
}  // namespace lily
