// attention_prepare and attention on the CPU: near the reference within a bound from the operands,
// and the same bits for every instruction set, number of threads, split into chunks and company in
// the pass.
#include <cmath>

#include "tests/backend/cpu.h"
#include "tests/backend/mixer_parts.h"

namespace lily::cases {
namespace {

constexpr int kSpan = cpu::kAttentionSpan;

AttentionCase attention_case(const ModelSpec& spec, const std::vector<Piece>& pieces,
                             std::uint64_t seed) {
  Random random(seed);
  return random_attention(random, spec, make_pass(spec, pieces, {}, random));
}

double largest_magnitude(const std::vector<float>& x) {
  double most = 0.0;
  for (const float v : x) most = std::max(most, std::fabs(double{v}));
  return most;
}

// docs/NUMERICS.md: a score's error e = 257 u sum |q k|, then 2 e + (n + 4) u on a weight and n u
// on the mix, of values up to max |v|.
double attention_bound(const AttentionCase& c, int n_positions) {
  const double kv = largest_magnitude(c.kv.pages);
  const double score = 257 * kUnit * kHeadDim * largest_magnitude(c.q) * kv;
  return (2 * score + (2 * n_positions + 8) * kUnit) * kv;
}

TEST(CpuAttention, IsNearTheReference) {
  auto passes = typical_passes();
  passes.push_back({{.n_rows = 300}});
  passes.push_back({{.n_rows = 2, .position = 3 * kSpan - 1}});
  passes.push_back(
      {{.n_rows = 1, .position = 1500}, {.n_rows = 3, .position = 254, .sequence = 1}});
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    for (const auto& pieces : passes) {
      const auto c = attention_case(spec, pieces, 21);
      const double bound = attention_bound(c, pieces.front().position + pieces.front().n_rows);
      EXPECT_LE(largest_error(run(cpu_backend(), c).at("y"), run(reference(), c).at("y")), bound);
      // What rounding really does: errors of either sign cancel.
      EXPECT_LE(relative_error(run(cpu_backend(), c).at("y"), run(reference(), c).at("y")),
                32 * kUnit);
    }
  }
}

TEST(CpuAttention, BitsDoNotDependOnInstructionSetOrThreads) {
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    for (const auto& pieces : typical_passes()) run_everywhere(attention_case(spec, pieces, 22));
    run_everywhere(attention_case(spec, {{.n_rows = 2, .position = 5 * kSpan - 1}}, 23));
  }
}

TEST(CpuAttention, ChunksOfAnySizeGiveTheBitsOfOnePass) {
  constexpr int kStart = kSpan - 70, kRows = 140;
  const auto whole = attention_case(pocket_spec(), {{.n_rows = kRows, .position = kStart}}, 24);
  const auto want = run(cpu_backend(), whole).at("y");
  for (const int step : {1, 2, 3, 63, 64, 65}) {
    for (int first = 0; first < kRows; first += step) {
      const int n = std::min(step, kRows - first);
      const auto got =
          run(cpu_backend(), part_of(whole, first, {.n_rows = n, .position = kStart + first}));
      ASSERT_EQ(got.at("y"), rows_of(want, kRows, first, n)) << step << " at " << first;
    }
  }
}

// One row far into the cache goes by spans and waves, many rows by groups: the same bits.
TEST(CpuAttention, LongContextsGiveTheSameBitsByEitherPath) {
  constexpr int kStart = 20 * kSpan + 17, kRows = 64;
  ModelSpec spec = odd_spec();
  const auto whole = attention_case(spec, {{.n_rows = kRows, .position = kStart}}, 25);
  const auto want = run(cpu_backend("", 1), whole).at("y");
  EXPECT_EQ(run(cpu_backend("", 3), whole).at("y"), want);
  for (const int row : {0, 31, 63}) {
    const auto alone = part_of(whole, row, {.n_rows = 1, .position = kStart + row});
    for (const int threads : {1, 2, 3}) {
      EXPECT_EQ(run(cpu_backend("", threads), alone).at("y"), rows_of(want, kRows, row, 1))
          << threads;
    }
  }
}

// More spans than partial results fit the scratch (256 of them, shared by four groups): several
// waves.
TEST(CpuAttention, ManySpansAreTakenInWaves) {
  const std::vector<Piece> pieces = {{.position = 70 * kSpan + 100},
                                     {.position = 69 * kSpan},
                                     {.position = 3},
                                     {.position = 64 * kSpan - 1}};
  const auto c = attention_case(odd_spec(), pieces, 26);
  const Outputs got = run(cpu_backend("", 2), c);
  EXPECT_LE(relative_error(got.at("y"), run(reference(), c).at("y")), 64 * kUnit);
  EXPECT_EQ(run(cpu_backend("", 1), c), got);
}

TEST(CpuAttention, ASegmentBesideOthersGivesTheBitsOfItAlone) {
  const auto pieces = typical_passes().back();
  const auto c = attention_case(pocket_spec(), pieces, 27);
  const auto all = run(cpu_backend(), c).at("y");
  int first = 0;
  for (const auto& piece : pieces) {
    EXPECT_EQ(run(cpu_backend(), part_of(c, first, piece)).at("y"),
              rows_of(all, c.control.n_rows, first, piece.n_rows));
    first += piece.n_rows;
  }
}

// Pages are handed on from one sequence to the next: what lies behind a row's position may be
// anything.
TEST(CpuAttention, NothingBehindARowsPositionIsRead) {
  const auto c = attention_case(pocket_spec(), {{.n_rows = 3, .position = 72}}, 28);
  AttentionCase dirty = c;
  for (int position = 75; position < 128; ++position) {
    for (int head = 0; head < c.spec.n_kv_heads; ++head) {
      for (const int part : {0, 1}) {
        const auto at = kv_offset(c.spec, c.kv, 0, position, head, part);
        for (std::size_t i = 0; i < kHeadDim; ++i)
          dirty.kv.pages[at + i] = i % 2 == 0 ? NAN : -INFINITY;
      }
    }
  }
  EXPECT_EQ(run(cpu_backend(), dirty).at("y"), run(cpu_backend(), c).at("y"));
  // A row's own successors in the pass as well: they are in the cache already.
  const auto at = kv_offset(c.spec, c.kv, 0, 74, 0, 1);
  dirty.kv.pages[at] = NAN;
  const int n_rows = c.control.n_rows;
  EXPECT_EQ(rows_of(run(cpu_backend(), dirty).at("y"), n_rows, 0, 2),
            rows_of(run(cpu_backend(), c).at("y"), n_rows, 0, 2));
}

TEST(CpuAttentionPrepare, IsNearTheReference) {
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    for (const auto& pieces : typical_passes()) {
      Random random(31);
      const auto c = random_attention_prepare(random, spec, make_pass(spec, pieces, {}, random));
      const Outputs got = run(cpu_backend(), c), want = run(reference(), c);
      // A norm over 256 (half of its sum's error), then two products and a sum.
      EXPECT_LE(relative_error(got.at("q"), want.at("q")), (128 + 8) * kUnit);
      // Kept as bf16: half a step of 2^-7.
      EXPECT_LE(relative_error(got.at("kv"), want.at("kv")), 0x1p-8);
    }
  }
}

TEST(CpuAttentionPrepare, BitsDoNotDependOnInstructionSetThreadsOrChunks) {
  for (const auto& pieces : typical_passes()) {
    Random random(32);
    const auto spec = pocket_spec();
    run_everywhere(random_attention_prepare(random, spec, make_pass(spec, pieces, {}, random)));
  }
  Random random(33);
  const auto spec = pocket_spec();
  constexpr int kRows = 67;
  const auto whole = random_attention_prepare(
      random, spec, make_pass(spec, {{.n_rows = kRows, .position = 60}}, {}, random));
  const Outputs want = run(cpu_backend(), whole);
  for (const int step : {1, 2, 3, 63, 64, 65}) {
    auto rest = whole;
    for (int first = 0; first < kRows; first += step) {
      const int n = std::min(step, kRows - first);
      const Outputs got =
          run(cpu_backend(), part_of(rest, first, {.n_rows = n, .position = 60 + first}));
      ASSERT_EQ(got.at("q"), rows_of(want.at("q"), kRows, first, n)) << step;
      rest.kv.pages = got.at("kv");
    }
    EXPECT_EQ(rest.kv.pages, want.at("kv")) << step;
  }
}

// Positions far past what was trained: the angles are made in f64, so the error does not grow with
// the position.
TEST(CpuAttentionPrepare, LargePositionsAreAsGoodAsSmallOnes) {
  for (const int position : {0, 131071, 200000, 262143, 1048575}) {
    ModelSpec spec = odd_spec();
    Random random(34);
    auto c = random_attention_prepare(random, spec,
                                      make_pass(spec, {{.n_rows = 1, .position = 5}}, {}, random));
    c.control.segments[0].position = position;
    c.kv.table.assign(static_cast<std::size_t>(position / kKvPageTokens + 1), 0);
    c.kv.table_stride = static_cast<int>(c.kv.table.size());
    const Outputs got = run(cpu_backend(), c), want = run(reference(), c);
    EXPECT_LE(relative_error(got.at("q"), want.at("q")), 8 * kUnit) << position;
    EXPECT_LE(largest_error(got.at("kv"), want.at("kv")), 0x1p-8 * largest_magnitude(want.at("kv")))
        << position;
  }
}

}  // namespace
}  // namespace lily::cases
