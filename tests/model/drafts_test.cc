// Drafts checked by the target in one pass, as a drafter would have it: whatever was guessed, the tokens, the recurrent states and the
// KV cache are those of a run without drafts. Nothing here drafts yet, so the guesses come from the test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "model/forward.h"

namespace lily {
namespace {

constexpr int kMostDrafts = 3;
constexpr int kAccepted = 0, kTried = 1;  // Slots: behind what is accepted, behind the drafts.

struct Lengths {
  int prompt, answer;  // Together whole pages, so that every position of them is written by the end.
};

// What a run leaves behind.
struct Remains {
  std::vector<TokenId> tokens;
  std::vector<std::byte> slot, pages;
  bool operator==(const Remains&) const = default;
};

// Guesses up to n tokens, given how many of the answer are known.
using Drafter = std::function<std::vector<TokenId>(int n_known, int n)>;

class Drafts : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr int kVocab = 4096;

  void SetUp() override {
    backend_ = *open_backend(GetParam(), {});
    const auto loaded = load_weights(Path(LILY_SOURCE_DIR) / "models/pocket", {.layout = backend_->info().layout, .pack = false});
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    const StateLimits limits{.n_sequences = 1, .max_positions = 256, .n_pages = 0, .n_slots = 2};
    auto model = create_model(*backend_, *loaded, {.state = limits, .max_rows = 128, .vocab_used = kVocab});
    ASSERT_TRUE(model.has_value()) << model.error().message;
    model_ = std::make_unique<Model>(*std::move(model));
    if (GetParam() == "emulator") lengths_ = {58, 6};
    choose_greedily();
  }

  void choose_greedily() {
    generated_ = *backend_->allocate(kVocab * sizeof(std::int32_t), "token counts");
    in_prompt_ = *backend_->allocate(kVocab, "prompt tokens");
    sampling_ = *backend_->allocate(sizeof(SamplingControl), "sampling control");
    SamplingControl control{};
    control.generated = generated_.as<std::int32_t>();
    control.in_prompt = in_prompt_.as<std::uint8_t>();
    control.top_p = control.repetition_penalty = 1.0f;
    backend_->write(sampling_, 0, std::as_bytes(std::span(&control, 1)));
    for (int row = 0; row <= kMostDrafts; ++row) model_->buffers.write_sampling(*backend_, row, sampling_.as<SamplingControl>());
  }

  // What follows each of the last n_heads tokens.
  std::vector<TokenId> pass(std::span<const TokenId> tokens, int position, int state_out, int n_heads) {
    const PassPart part{.tokens = tokens, .position = position, .state_in = kAccepted, .state_out = state_out};
    std::vector<std::int32_t> heads;
    for (int i = 0; i < n_heads; ++i) heads.push_back(static_cast<std::int32_t>(tokens.size()) - n_heads + i);
    const auto kind = n_heads > 0 ? HeadUse::Kind::kChoose : HeadUse::Kind::kNone;
    const auto ran = run_pass(*backend_, *model_, {.parts = {&part, 1}, .head = {.kind = kind}, .head_rows = heads});
    EXPECT_TRUE(ran.has_value()) << ran.error().message;
    std::vector<TokenId> chosen;
    for (int row = 0; row < n_heads; ++row) chosen.push_back(model_->buffers.read_chosen(*backend_, row)->token);
    return chosen;
  }

  // One check of drafts behind the last of `known`, which is not in the state yet. Returns how many were accepted.
  int check(std::vector<TokenId>& known, std::span<const TokenId> drafts) {
    const int position = lengths_.prompt + static_cast<int>(known.size()) - 1;
    std::vector<TokenId> rows{known.back()};
    rows.insert(rows.end(), drafts.begin(), drafts.end());
    const auto chosen = pass(rows, position, kTried, static_cast<int>(rows.size()));
    std::size_t accepted = 0;
    while (accepted < drafts.size() && drafts[accepted] == chosen[accepted]) ++accepted;
    if (accepted == drafts.size()) {
      EXPECT_TRUE(model_->state.copy_slot(*backend_, kTried, kAccepted).has_value());
    } else {
      model_->state.truncate(0, position);
      pass(std::span(rows).first(accepted + 1), position, kAccepted, 0);
    }
    known.insert(known.end(), chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(accepted) + 1);
    return static_cast<int>(accepted);
  }

  Remains run(const Drafter& draft) {
    std::vector<TokenId> prompt;
    for (int i = 0; i < lengths_.prompt; ++i) prompt.push_back(260 + i * 37 % 2000);
    model_->state.truncate(0, 0);
    n_drafted_ = n_accepted_ = 0;
    Remains remains{.tokens = pass(prompt, 0, kAccepted, 1), .slot = {}, .pages = {}};
    while (static_cast<int>(remains.tokens.size()) <= lengths_.answer) {
      const int n_known = static_cast<int>(remains.tokens.size());
      const auto drafts = draft(n_known, std::min(kMostDrafts, lengths_.answer - n_known));
      n_drafted_ += static_cast<int>(drafts.size());
      n_accepted_ += check(remains.tokens, drafts);
    }
    ModelState& state = model_->state;
    remains.slot.resize(state.slot_bytes());
    EXPECT_TRUE(state.export_slot(*backend_, kAccepted, remains.slot).has_value());
    const auto pages = state.share(0, lengths_.prompt + lengths_.answer);
    remains.pages.resize(pages.size() * state.page_bytes());
    EXPECT_TRUE(state.export_pages(*backend_, pages, remains.pages).has_value());
    state.release(pages);
    return remains;
  }

  Lengths lengths_{100, 28};
  int n_drafted_ = 0, n_accepted_ = 0;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  Buffer generated_, in_prompt_, sampling_;
};

// R031
TEST_P(Drafts, RefusedOrAcceptedLeaveNoTrace) {
  const Remains plain = run([](int, int) { return std::vector<TokenId>{}; });
  ASSERT_EQ(static_cast<int>(plain.tokens.size()), lengths_.answer + 1);
  std::mt19937 random(31);
  const auto guesses = [&](double right) {
    return [&plain, &random, right](int n_known, int n) {
      std::vector<TokenId> out;
      for (int i = 0; i < n; ++i) {
        const TokenId truth = plain.tokens[static_cast<std::size_t>(n_known + i)];
        out.push_back(std::bernoulli_distribution(right)(random) ? truth : (truth + 1) % kVocab);
      }
      return out;
    };
  };
  EXPECT_EQ(run(guesses(0)), plain) << "always wrong";
  EXPECT_EQ(n_accepted_, 0);
  EXPECT_EQ(run(guesses(1)), plain) << "always right";
  EXPECT_EQ(n_accepted_, n_drafted_);
  EXPECT_EQ(run(guesses(0.5)), plain) << "now and then";
  EXPECT_GT(n_accepted_, 0);
  EXPECT_LT(n_accepted_, n_drafted_);
}

INSTANTIATE_TEST_SUITE_P(Backends, Drafts, ::testing::Values("cpu", "reference", "emulator"), [](const auto& backend) { return backend.param; });

}  // namespace
}  // namespace lily
