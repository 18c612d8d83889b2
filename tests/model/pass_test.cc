// A pass on a device whose memory the host cannot reach, on the pocket checkpoint: it runs, and gives what unified memory gives.
#include "model/pass.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "model/forward.h"
#include "tests/model/fenced_backend.h"

namespace lily {
namespace {

// What a few passes of every kind report.
struct Seen {
  TokenId chosen = -1;
  float log_prob = 0;
  std::vector<float> scores, kl;
  std::vector<std::int32_t> top_ids;
  bool operator==(const Seen&) const = default;
};

class PassTest : public ::testing::Test {
 protected:
  void open(Backend& backend) {
    const auto loaded = load_weights(Path(LILY_SOURCE_DIR) / "models/pocket", {.layout = backend.info().layout, .pack = false});
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    const StateLimits limits{.n_sequences = 1, .max_positions = 128, .n_pages = 0, .n_slots = 2};
    auto model = create_model(backend, *loaded, {.state = limits, .max_rows = 32, .vocab_used = kVocab});
    ASSERT_TRUE(model.has_value()) << model.error().message;
    model_ = std::make_unique<Model>(*std::move(model));
  }

  static std::vector<TokenId> tokens(int n) {
    std::vector<TokenId> out;
    for (int i = 0; i < n; ++i) out.push_back(260 + i * 37 % 2000);
    return out;
  }

  // Greedy, without penalties.
  Result<Buffer> greedy_control(Backend& backend) {
    LILY_TRY(generated_, backend.allocate(kVocab * sizeof(std::int32_t), "token counts"));
    LILY_TRY(in_prompt_, backend.allocate(kVocab, "prompt tokens"));
    LILY_TRY(auto buffer, backend.allocate(sizeof(SamplingControl), "sampling control"));
    SamplingControl control{};
    control.generated = generated_.as<std::int32_t>();
    control.in_prompt = in_prompt_.as<std::uint8_t>();
    control.top_p = control.repetition_penalty = 1.0f;
    backend.write(buffer, 0, std::as_bytes(std::span(&control, 1)));
    return buffer;
  }

  // A prompt that chooses, a copy of its state, a pass that scores against given distributions, and the first part once more.
  Result<Seen> run(Backend& backend) {
    Seen seen;
    const auto all = tokens(20);
    const std::int32_t last = 9;
    LILY_TRY(const Buffer control, greedy_control(backend));
    model_->buffers.write_sampling(backend, 0, control.as<SamplingControl>());
    const PassPart first{.tokens = std::span(all).first(10)}, second{.tokens = std::span(all).last(10), .position = 10};
    LILY_RETURN_IF_ERROR(run_pass(backend, *model_, {.parts = {&first, 1}, .head = {.kind = HeadUse::Kind::kChoose},
                                                     .head_rows = std::span(&last, 1)}));
    LILY_TRY(const ChosenToken chosen, model_->buffers.read_chosen(backend, 0));
    seen.chosen = chosen.token, seen.log_prob = chosen.log_prob;
    LILY_RETURN_IF_ERROR(model_->state.copy_slot(backend, 0, 1));
    const std::int32_t rows[] = {3, 9};
    model_->buffers.write_targets(backend, std::vector<std::int32_t>{300, 301});
    HeadUse score{.kind = HeadUse::Kind::kScore, .n_top = 2};
    const std::vector<float> even(2 * kVocab, -std::log(float{kVocab}));
    LILY_TRY(score.reference_log_probs, model_->buffers.write_reference_log_probs(backend, even));
    LILY_RETURN_IF_ERROR(run_pass(backend, *model_, {.parts = {&second, 1}, .head = score, .head_rows = rows}));
    LILY_TRY(const ScoreRows scored, model_->buffers.read_score(backend, 2, 2));
    seen.scores = scored.target_log_prob, seen.kl = scored.kl, seen.top_ids = scored.top_ids;
    LILY_RETURN_IF_ERROR(model_->state.copy_slot(backend, 1, 0));
    LILY_RETURN_IF_ERROR(run_pass(backend, *model_, {.parts = {&second, 1}, .head = score, .head_rows = rows}));
    LILY_TRY(const ScoreRows again, model_->buffers.read_score(backend, 2, 2));
    EXPECT_EQ(again.target_log_prob, scored.target_log_prob);
    return seen;
  }

  static constexpr int kVocab = 4096;
  std::unique_ptr<Model> model_;
  Buffer generated_, in_prompt_;
};

TEST_F(PassTest, MemoryThatTheHostCannotReachGivesTheSame) {
  for (const char* name : {"cpu", "reference"}) {
    auto plain = *open_backend(name, {});
    open(*plain);
    const auto expected = run(*plain);
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    FencedBackend fenced(*open_backend(name, {}));
    open(fenced);
    const auto seen = run(fenced);
    ASSERT_TRUE(seen.has_value()) << seen.error().message;
    EXPECT_EQ(*seen, *expected) << name;
    EXPECT_GE(seen->chosen, 0);
    EXPECT_LT(seen->scores[0], 0.0f);
    EXPECT_GT(seen->kl[1], 0.0f);
    model_.reset();
  }
}

// Of eight layers the one in which the wish comes is not finished, and the same pass afterwards is what it would have been.
TEST_F(PassTest, ACancelledPassEndsWithinALayerAndCanBeRunAgain) {
  FencedBackend backend(*open_backend("cpu", {}));
  open(backend);
  const auto all = tokens(12);
  const std::int32_t last = 11;
  const std::vector<std::int32_t> target{300};
  std::atomic<bool> cancel = false;
  const PassPart part{.tokens = all};
  const PassRequest request{.parts = {&part, 1}, .head = {.kind = HeadUse::Kind::kScore}, .head_rows = std::span(&last, 1), .cancel = &cancel};
  const auto score = [&]() -> Result<float> {
    model_->buffers.write_targets(backend, target);
    LILY_RETURN_IF_ERROR(run_pass(backend, *model_, request));
    LILY_TRY(const ScoreRows rows, model_->buffers.read_score(backend, 1, 0));
    return rows.target_log_prob[0];
  };
  const auto expected = score();
  ASSERT_TRUE(expected.has_value()) << expected.error().message;
  std::vector<std::string> after;
  int n_routed = 0;
  backend.on_step = [&](const std::string& step) {
    if (cancel) after.push_back(step);
    n_routed += step == "route";
    if (n_routed == 3) cancel = true;
  };
  const auto stopped = score();
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(after, (std::vector<std::string>{"experts_up", "experts_down"}));
  backend.on_step = nullptr;
  cancel = false;
  EXPECT_EQ(score().value(), *expected);
}

}  // namespace
}  // namespace lily
