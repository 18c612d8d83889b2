// attention_prepare and attention on the emulator: near the reference within bounds from the
// operands, the same bits in every order of lanes, split into chunks and beside other segments.
#include <cmath>

#include "tests/backend/gpu/attention_cases.h"
#include "tests/backend/gpu/gpu.h"
#include "tests/backend/mixer_parts.h"

namespace lily::cases {
namespace {

bool few(const AttentionCase& c) {
  return c.control.n_rows <= gpu::kFewRows;
}

// docs/NUMERICS.md: a score's error e, then 2 e + (n + 4) u on a weight and n u on the mix, of
// values up to max |v|. e is 257 u sum |q k|; of many rows q is bf16, one rounding each, and so is
// a weight, above and below the line.
double attention_bound(const AttentionCase& c, int n_positions) {
  const double kv = largest_magnitude(c.kv.pages);
  const double terms = kHeadDim * largest_magnitude(c.q) * kv;
  const double score = (257 * kUnit + (few(c) ? 0.0 : kBf16Unit)) * terms;
  return (2 * score + (few(c) ? 0.0 : 2 * kBf16Unit) + (2 * n_positions + 8) * kUnit) * kv;
}

// What rounding really does, errors of either sign cancelling. Few rows: fp32 throughout. Many: 256
// products of q and k (of rms 0.23 and 0.58 here), each q off by 0.6 * 2^-9 of itself or so, put a
// score off by 2.5e-3; a weight is off by as much of itself, and it is rounded too.
double usual_error(const AttentionCase& c) {
  return few(c) ? 32 * kUnit : 2 * kBf16Unit;
}

void expect_near(const AttentionCase& c, const Outputs& got) {
  int end = 0;
  for (int s = 0; s < c.control.n_segments; ++s)
    end = std::max(end, c.control.segments[s].position + c.control.segments[s].n_rows);
  const auto want = run(reference(), c).at("y");
  EXPECT_LE(largest_error(got.at("y"), want), attention_bound(c, end));
  EXPECT_LE(relative_error(got.at("y"), want), usual_error(c));
}

TEST(GpuAttention, IsNearTheReferenceInEveryOrderOfLanes) {
  auto passes = mixed_passes();
  passes.push_back({{.n_rows = 9, .position = 120}});
  passes.push_back({{.n_rows = 2, .position = 3 * kKvPageTokens - 1}});
  passes.push_back({{.n_rows = 1, .position = 500}, {.position = 254, .sequence = 1}});
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    for (const auto& pieces : passes) {
      const auto c = attention_case(spec, pieces, 21);
      expect_near(c, run_in_every_order(c));
    }
  }
}

TEST(GpuAttention, ALongPromptIsNearTheReference) {
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    const auto c = attention_case(spec, {{.n_rows = 203}}, 22);
    expect_near(c, run(gpu_backend(), c));
  }
}

// Heads that share a KV head: 1 to 32, powers of two and not.
TEST(GpuAttention, GroupsOfAnySizeAreNearTheReference) {
  for (const int group : {1, 2, 5, 8, 12}) {
    ModelSpec spec = odd_spec();
    spec.n_q_heads = group;
    for (const int n_rows : {1, 11}) {
      const auto c = attention_case(spec, {{.n_rows = n_rows, .position = 66}}, 23);
      expect_near(c, run(gpu_backend(), c));
    }
  }
}

// Parts of the cache that have two blocks, one and none.
TEST(GpuAttention, LongContextsAreNearTheReference) {
  const std::vector<Piece> pieces = {{.position = 70 * kKvPageTokens + 5},
                                     {.position = 64 * kKvPageTokens - 1},
                                     {.position = 64 * kKvPageTokens},
                                     {.position = 3}};
  const auto c = attention_case(odd_spec(), pieces, 24);
  expect_near(c, run_in_every_order(c));
}

void expect_split(const AttentionCase& whole, const std::vector<int>& steps) {
  const int n_rows = whole.control.n_rows, start = whole.control.segments[0].position;
  const auto want = run(gpu_backend(), whole).at("y");
  for (const int step : steps) {
    for (int first = 0; first < n_rows; first += step) {
      const int n = std::min(step, n_rows - first);
      const auto part = part_of(whole, first, {.n_rows = n, .position = start + first});
      ASSERT_EQ(few(part), few(whole));
      ASSERT_EQ(run(gpu_backend(), part).at("y"), rows_of(want, n_rows, first, n))
          << step << " at " << first;
    }
  }
}

// Within a form: few rows among few, many among many.
TEST(GpuAttention, ChunksGiveTheBitsOfOnePass) {
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    expect_split(attention_case(spec, {{.n_rows = 8, .position = 59}}, 25), {1, 3, 5});
    expect_split(attention_case(spec, {{.n_rows = 66, .position = 50}}, 26), {11, 22, 33});
  }
}

TEST(GpuAttention, ASegmentBesideOthersGivesTheBitsOfItAlone) {
  const std::vector<std::vector<Piece>> passes = {mixed_passes()[5],
                                                  {{.n_rows = 10, .position = 70, .sequence = 2},
                                                   {.n_rows = 9},
                                                   {.n_rows = 13, .sequence = 1}}};
  for (const auto& pieces : passes) {
    const auto c = attention_case(pocket_spec(), pieces, 27);
    const auto all = run(gpu_backend(), c).at("y");
    int first = 0;
    for (const auto& piece : pieces) {
      EXPECT_EQ(run(gpu_backend(), part_of(c, first, piece)).at("y"),
                rows_of(all, c.control.n_rows, first, piece.n_rows));
      first += piece.n_rows;
    }
  }
}

// Pages are handed on from one sequence to the next: what lies behind a segment may be anything.
TEST(GpuAttention, NothingBehindASegmentIsUsed) {
  for (const int n_rows : {3, 15}) {
    const auto c = attention_case(pocket_spec(), {{.n_rows = n_rows, .position = 72}}, 29);
    AttentionCase dirty = c;
    for (int position = 72 + n_rows; position < 128; ++position) {
      for (int head = 0; head < c.spec.n_kv_heads; ++head) {
        for (const int part : {0, 1}) {
          const auto at = kv_offset(c.spec, c.kv, 0, position, head, part);
          for (std::size_t i = 0; i < kHeadDim; ++i)
            dirty.kv.pages[at + i] = i % 2 == 0 ? NAN : -INFINITY;
        }
      }
    }
    EXPECT_EQ(run(gpu_backend(), dirty).at("y"), run(gpu_backend(), c).at("y"));
  }
}

// Of few rows each is alone: its successors in the pass are in the cache already.
TEST(GpuAttention, FewRowsDoNotSeeTheirSuccessors) {
  const auto c = attention_case(pocket_spec(), {{.n_rows = 3, .position = 72}}, 30);
  AttentionCase dirty = c;
  for (const int part : {0, 1}) dirty.kv.pages[kv_offset(c.spec, c.kv, 0, 74, 0, part)] = NAN;
  EXPECT_EQ(rows_of(run(gpu_backend(), dirty).at("y"), 3, 0, 2),
            rows_of(run(gpu_backend(), c).at("y"), 3, 0, 2));
}

TEST(GpuAttentionPrepare, IsNearTheReferenceInEveryOrderOfLanes) {
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    for (const auto& pieces : mixed_passes()) {
      const auto c = prepare_case(spec, pieces, 31);
      const Outputs got = run_in_every_order(c), want = run(reference(), c);
      // A norm over 256 (half of its sum's error), then two products and a sum.
      EXPECT_LE(relative_error(got.at("q"), want.at("q")), (128 + 8) * kUnit);
      EXPECT_LE(relative_error(got.at("kv"), want.at("kv")), kBf16Unit);
    }
  }
}

TEST(GpuAttentionPrepare, ChunksGiveTheBitsOfOnePass) {
  constexpr int kRows = 67;
  const auto whole = prepare_case(pocket_spec(), {{.n_rows = kRows, .position = 60}}, 32);
  const Outputs want = run(gpu_backend(), whole);
  for (const int step : {1, 3, 64}) {
    auto rest = whole;
    for (int first = 0; first < kRows; first += step) {
      const int n = std::min(step, kRows - first);
      const Outputs got =
          run(gpu_backend(), part_of(rest, first, {.n_rows = n, .position = 60 + first}));
      ASSERT_EQ(got.at("q"), rows_of(want.at("q"), kRows, first, n)) << step;
      rest.kv.pages = got.at("kv");
    }
    EXPECT_EQ(rest.kv.pages, want.at("kv")) << step;
  }
}

// Positions far past what was trained: angles are exact turns, so the error does not grow with the
// position. With YaRN the magnitude is not 1.
TEST(GpuAttentionPrepare, LargePositionsAreAsGoodAsSmallOnes) {
  for (const double factor : {1.0, 4.0}) {
    for (const int position : {0, 1, 131071, 200000, 262143, 1048575}) {
      ModelSpec spec = odd_spec();
      spec.rope.factor = factor;
      spec.rope.original_context = 262144;
      auto c = prepare_case(spec, {{.n_rows = 1, .position = 5}}, 33);
      c.control.segments[0].position = position;
      c.kv.table.assign(static_cast<std::size_t>(position / kKvPageTokens + 1), 0);
      c.kv.table_stride = static_cast<int>(c.kv.table.size());
      const Outputs got = run(gpu_backend(), c), want = run(reference(), c);
      EXPECT_LE(relative_error(got.at("q"), want.at("q")), 8 * kUnit) << position;
      EXPECT_LE(largest_error(got.at("kv"), want.at("kv")),
                kBf16Unit * largest_magnitude(want.at("kv")))
          << position;
    }
  }
}

TEST(GpuAttention, ARecordingForMoreRowsGivesTheSame) {
  for (const auto& pieces : mixed_passes()) {
    const auto c = attention_case(odd_spec(), pieces, 36);
    EXPECT_EQ(run_with_spare_rows(gpu_backend(), c), run(gpu_backend(), c));
    const auto prepare = prepare_case(odd_spec(), pieces, 37);
    EXPECT_EQ(run_with_spare_rows(gpu_backend(), prepare), run(gpu_backend(), prepare));
  }
}

#if !defined(LILY_GPU_TSAN)
TEST(GpuAttention, TouchesWhatItDeclaresAndNothingElse) {
  for (const auto& pieces : mixed_passes()) {
    const auto c = attention_case(odd_spec(), pieces, 34);
    EXPECT_EQ(run_with_spare_rows(observed_backend(), c), run(gpu_backend(), c));
    const auto prepare = prepare_case(odd_spec(), pieces, 35);
    EXPECT_EQ(run_with_spare_rows(observed_backend(), prepare), run(gpu_backend(), prepare));
  }
}
#endif

}  // namespace
}  // namespace lily::cases
