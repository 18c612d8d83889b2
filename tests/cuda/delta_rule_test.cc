// The delta rule of many rows on a card, chunk by chunk on the matrix units: near the reference,
// whatever a chunk holds, and the same from run to run.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "backend/ops.h"
#include "tests/backend/cases.h"
#include "tests/backend/reference.h"

namespace lily::cases {
namespace {

// Operands have 11 bits (src/backend/gpu/cuda/kernels/delta_chunk.h).
constexpr double kHalfUnit = 0x1p-11;

std::unique_ptr<Backend> open_card() {
  auto opened = open_backend("cuda", {});
  return opened.has_value() ? std::move(*opened) : nullptr;
}

// Chunks that are whole and that are not, new states and old ones, states asked for row by row,
// segments that end where others begin.
std::vector<std::vector<Piece>> long_passes() {
  return {{{.n_rows = 64, .state_in = -1, .state_out = 0}},
          {{.n_rows = 300, .state_in = 1, .state_out = 1}},
          {{.n_rows = 130, .sequence = 0, .state_in = -1, .state_out = 0},
           {.n_rows = 1, .sequence = 1, .state_in = 1, .state_out = 1},
           {.n_rows = 65, .sequence = 2, .state_in = 2, .state_out = 3},
           {.n_rows = 70, .sequence = 3, .state_in = 4, .state_out = 5, .snapshots = 6}}};
}

GdnScanCase scan_case(const ModelSpec& spec, const std::vector<Piece>& pieces) {
  Random random(23);
  return random_gdn_scan(random, spec, make_pass(spec, pieces, {}, random));
}

void expect_near(const GdnScanCase& c, const Outputs& got) {
  const Outputs want = run(reference(), c);
  EXPECT_LE(relative_error(got.at("delta"), want.at("delta")), kHalfUnit);
  EXPECT_LE(relative_error(got.at("y"), want.at("y")), 2 * kHalfUnit);
}

TEST(DeltaRule, OfManyRowsIsNearTheReferenceAndTheSameEveryTime) {
  const auto card = open_card();
  if (card == nullptr) GTEST_SKIP() << "no CUDA here";
  ModelSpec spec = pocket_spec();
  ASSERT_TRUE(card->prepare(spec, kMaxPassRows).has_value());
  for (const auto& pieces : long_passes()) {
    const auto c = scan_case(spec, pieces);
    const Outputs got = run(*card, c);
    expect_near(c, got);
    EXPECT_EQ(run(*card, c), got);
  }
}

// Decays that forget all, and values far from one: nothing leaves fp16's range.
TEST(DeltaRule, StandsHardDecaysAndLargeValues) {
  const auto card = open_card();
  if (card == nullptr) GTEST_SKIP() << "no CUDA here";
  const ModelSpec spec = pocket_spec();
  ASSERT_TRUE(card->prepare(spec, kMaxPassRows).has_value());
  auto c = scan_case(spec, long_passes()[2]);
  for (std::size_t i = 0; i < c.decay.size(); i += 7) c.decay[i] = i % 2 == 0 ? 0.0f : 1e-30f;
  for (std::size_t i = 0; i < c.v.size(); ++i) c.v[i] *= i % 1000 < 300 ? 3e6f : 1e-4f;
  for (std::size_t i = 0; i < c.beta.size(); i += 5) c.beta[i] = i % 2 == 0 ? 0.0f : 1.0f;
  expect_near(c, run(*card, c));
}

}  // namespace
}  // namespace lily::cases
