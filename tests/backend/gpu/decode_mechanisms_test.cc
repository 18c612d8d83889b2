// Both sides of the mechanisms of short passes, step by step: the same bits where arithmetic is the
// same, else near the reference.
#include "backend/mechanisms.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/backend/gpu/attention_cases.h"
#include "tests/backend/gpu/gpu.h"
#include "tests/backend/mixer_parts.h"

namespace lily::cases {
namespace {

Mechanisms without(std::initializer_list<bool Mechanisms::*> fields) {
  Mechanisms mechanisms;
  for (const auto field : fields) mechanisms.*field = !(mechanisms.*field);
  return mechanisms;
}

struct Heads {
  HeadCase head;
  std::vector<Sampling> rows;
};

// Greedy rows and drawn ones, with and without penalties.
Heads random_heads(int n_rows, int vocab_used, int seed) {
  Random random(static_cast<std::uint64_t>(seed));
  ModelSpec spec = odd_spec();
  spec.vocab_rows = vocab_used + 7;
  std::vector<int> head_rows;
  for (int i = n_rows; i-- > 0;) head_rows.push_back(i);
  Heads out{random_head(random, spec, make_pass(spec, {{.n_rows = n_rows}}, head_rows, random)),
            random_choose(random, n_rows, spec.vocab_rows, vocab_used).rows};
  out.rows[0].control = sampling_off();
  out.rows[0].bias.clear();
  out.rows[0].allowed.clear();
  return out;
}

#if !defined(LILY_GPU_TSAN)
std::unique_ptr<Backend> open_without(std::initializer_list<bool Mechanisms::*> fields) {
  return open_gpu({.workers = 2}, largest_gpu_spec(), without(fields));
}

// Contexts of 0 to 71 pages; several rows and one.
std::vector<std::vector<Piece>> few_passes() {
  return {{{.position = 0}},
          {{.position = 63}},
          {{.position = 64}},
          {{.n_rows = 3, .position = 62}, {.n_rows = 2, .position = 0, .sequence = 1}},
          {{.position = 70 * kKvPageTokens + 5}}};
}

TEST(GpuDecode, AttentionHasTheSameBytesPackedAndUnpackedCoalescedAndScattered) {
  const std::unique_ptr<Backend> others[] = {
      open_without({&Mechanisms::packed_attention}), open_without({&Mechanisms::coalesced_kv}),
      open_without({&Mechanisms::packed_attention, &Mechanisms::coalesced_kv})};
  for (const int group : {1, 2, 5, 8, 12}) {
    ModelSpec spec = odd_spec();
    spec.n_q_heads = group * spec.n_kv_heads;
    for (const auto& pieces : few_passes()) {
      const auto c = attention_case(spec, pieces, 60 + group);
      const auto want = run(gpu_backend(), c);
      for (const auto& other : others) EXPECT_EQ(run(*other, c), want) << group;
    }
  }
}

// A pass of one row, which attention prepares on its way, in separate launches, and as a row of a
// longer recording.
TEST(GpuDecode, PreparedOnTheWayOrBeforeARowHasTheSameBits) {
  const auto apart = open_without({&Mechanisms::fused_query_key});
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    for (const auto& pieces : few_passes()) {
      const auto c = prepare_case(spec, pieces, 71);
      const Outputs fused = run_both(gpu_backend(), c);
      EXPECT_EQ(run_both(*apart, c), fused);
      spare_rows = 2;
      EXPECT_EQ(run_both(gpu_backend(), c), fused);
      spare_rows = 0;
    }
  }
}

// The new keys and values are rounded to bf16 before they are read.
TEST(GpuDecode, AttentionThatPreparesIsNearTheReferenceInEveryOrderOfLanes) {
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    for (const auto& pieces : few_passes()) {
      const auto c = prepare_case(spec, pieces, 72);
      const Outputs want = run_both(reference(), c), got = run_both(gpu_backend(), c);
      EXPECT_LE(relative_error(got.at("y"), want.at("y")), kBf16Unit);
      EXPECT_LE(relative_error(got.at("kv"), want.at("kv")), kBf16Unit);
      for (const auto order : {gpu::LaneOrder::kReverse, gpu::LaneOrder::kShuffled})
        EXPECT_EQ(run_both(gpu_backend(order), c), got);
    }
  }
}

// Many rows too.
TEST(GpuDecode, QueriesAndKeysPreparedApartHaveTheSameBits) {
  const auto apart = open_without({&Mechanisms::fused_query_key});
  for (const auto& pieces : mixed_passes()) {
    const auto c = prepare_case(odd_spec(), pieces, 73);
    EXPECT_EQ(run(*apart, c), run(gpu_backend(), c));
  }
}

// ---- contexts cut into blocks

constexpr int kFrom = 1000;  // The switch, lowered.

std::unique_ptr<Backend> open_blocks(const Mechanisms& mechanisms = {}) {
  return open_gpu({.workers = 2}, largest_gpu_spec(), mechanisms, {.block_attention_from = kFrom});
}

TEST(GpuDecode, ContextsFromTheSwitchOnAreCutIntoBlocks) {
  const auto blocks = open_blocks();
  const auto off = open_blocks(without({&Mechanisms::block_attention}));
  const auto spec = odd_spec();
  for (const int position : {kFrom - 1, kFrom, 1024, 70 * kKvPageTokens + 5}) {
    const auto c = attention_case(spec, {{.position = position}}, 74);
    const auto general = run(gpu_backend(), c), got = run(*blocks, c);
    EXPECT_EQ(run(*off, c), general);
    EXPECT_EQ(got == general, position < kFrom) << position;
    EXPECT_LE(relative_error(got.at("y"), run(reference(), c).at("y")), 32 * kUnit) << position;
  }
}

// Rows on both sides of the switch in one pass have the bits that they have alone.
TEST(GpuDecode, ARowTakesItsPathWhateverElseIsInThePass) {
  const auto blocks = open_blocks();
  const auto c = attention_case(pocket_spec(), {{.n_rows = 4, .position = kFrom - 2}}, 75);
  const auto all = run(*blocks, c).at("y");
  for (int i = 0; i < 4; ++i) {
    const auto part = part_of(c, i, {.position = kFrom - 2 + i});
    EXPECT_EQ(run(*blocks, part).at("y"), rows_of(all, 4, i, 1)) << i;
  }
}

TEST(GpuDecode, BlocksHaveTheSameBytesPackedUnpackedAndScattered) {
  const auto blocks = open_blocks();
  const std::unique_ptr<Backend> others[] = {open_blocks(without({&Mechanisms::packed_attention})),
                                             open_blocks(without({&Mechanisms::coalesced_kv}))};
  const auto c = attention_case(pocket_spec(), {{.n_rows = 2, .position = 2100}}, 76);
  for (const auto& other : others) EXPECT_EQ(run(*other, c), run(*blocks, c));
}

// ---- experts and the delta rule

template <typename Case>
void expect_same(Backend& other, const Case& c) {
  EXPECT_EQ(run(other, c), run(gpu_backend(), c));
  spare_rows = 1;
  EXPECT_EQ(run(other, c), run(gpu_backend(), c));
  spare_rows = 0;
}

TEST(GpuDecode, ExpertsWithNothingFusedHaveTheSameBits) {
  const auto apart = open_without({&Mechanisms::fused_experts_up, &Mechanisms::fused_experts_down});
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    for (const int n : {1, 3, 7}) {
      Random random(77);
      const auto control = make_pass(spec, {{.n_rows = n}}, {}, random);
      auto up = random_experts_up(random, spec, control);
      expect_same(*apart, up);
      up.shared_up = random_matrix(random, up.shared_up.rows, up.shared_up.cols, 8);
      expect_same(*apart, up);
      expect_same(*apart, random_experts_down(random, spec, control));
    }
  }
}

TEST(GpuDecode, TheRecurrenceWithItsNormApartHasTheSameBits) {
  const auto apart = open_without({&Mechanisms::fused_scan_norm});
  for (const auto& pieces : mixed_passes()) {
    Random random(78);
    const auto spec = odd_spec();
    expect_same(*apart, random_gdn_scan(random, spec, make_pass(spec, pieces, {}, random)));
  }
}

// ---- the head that keeps what choosing needs

TEST(GpuDecode, ChoosesTheSameFromWhatTheHeadKept) {
  const auto sweeping = open_without({&Mechanisms::fused_head_choose});
  for (const int n_rows : {1, 2, 7}) {
    for (const int vocab_used : {1003, 2100}) {
      const auto c = random_heads(n_rows, vocab_used, 80 + n_rows);
      Outputs got = run_both(gpu_backend(), c.head, c.rows, vocab_used),
              want = run_both(*sweeping, c.head, c.rows, vocab_used);
      for (Outputs* outputs : {&got, &want}) {
        for (int row = 0; row < n_rows; ++row) {  // Padding need not be computed.
          const auto at = static_cast<std::ptrdiff_t>(row) * (vocab_used + 7) + vocab_used;
          std::fill_n(outputs->at("logits").begin() + at, 7, 0.0f);
        }
      }
      EXPECT_EQ(got, want) << n_rows;
    }
  }
}

// Score follows the head, not choose; and steps by themselves.
TEST(GpuDecode, AHeadThatNoChooseFollowsIsComputed) {
  const auto sweeping = open_without({&Mechanisms::fused_head_choose});
  const auto c = random_heads(3, 1003, 81);
  EXPECT_EQ(run(gpu_backend(), c.head), run(*sweeping, c.head));
  Random random(82);
  const auto choice = random_choose(random, 3, 1003, 1000);
  EXPECT_EQ(run(gpu_backend(), choice), run(*sweeping, choice));
}
#endif

// ---- every mechanism on the side that it is not on by default

std::unique_ptr<Backend> open_other_sides(const gpu::EmulatorOptions& options) {
  return open_gpu(options, largest_gpu_spec(),
                  without({&Mechanisms::fused_experts_up, &Mechanisms::fused_experts_down,
                           &Mechanisms::fused_query_key, &Mechanisms::fused_scan_norm,
                           &Mechanisms::packed_attention, &Mechanisms::coalesced_kv,
                           &Mechanisms::fused_head_choose}),
                  {.block_attention_from = 64});
}

struct OtherSides {
  ModelSpec spec = odd_spec();
  Random random{79};
  PassControl control;
  ExpertsUpCase up;
  ExpertsDownCase down;
  GdnScanCase scan;
  AttentionPrepareCase prepare;
  Heads heads;
  explicit OtherSides(int n_rows)
      : control(make_pass(spec, {{.n_rows = n_rows, .position = 70}}, {}, random)),
        up(random_experts_up(random, spec, control)),
        down(random_experts_down(random, spec, control)),
        scan(random_gdn_scan(random, spec, control)),
        prepare(random_attention_prepare(random, spec, control)),
        heads(random_heads(n_rows, 1003, 83)) {}
};

#if !defined(LILY_GPU_TSAN)
TEST(GpuDecode, TheOtherSidesTouchWhatTheyDeclare) {
  const auto other = open_other_sides({.observe = true});
  for (const int n_rows : {1, 3}) {
    const OtherSides c(n_rows);
    EXPECT_EQ(run(*other, c.up), run(gpu_backend(), c.up));
    EXPECT_EQ(run(*other, c.down), run(gpu_backend(), c.down));
    EXPECT_EQ(run(*other, c.scan), run(gpu_backend(), c.scan));
    const Outputs got = run_both(*other, c.prepare), want = run_both(gpu_backend(), c.prepare);
    EXPECT_EQ(got.at("kv"), want.at("kv"));
    EXPECT_LE(relative_error(got.at("y"), want.at("y")), 32 * kUnit);
    EXPECT_EQ(run_both(observed_backend(), c.prepare), want);
    EXPECT_EQ(run_both(*other, c.heads.head, c.heads.rows, 1003).at("token"),
              run_both(gpu_backend(), c.heads.head, c.heads.rows, 1003).at("token"));
  }
}
#else
// ThreadSanitizer has a limit for the lanes of all backends that ever were: here it only looks.
TEST(GpuDecode, TheOtherSidesHaveNoRaces) {
  const auto other = open_other_sides({.workers = 2});
  for (const int n_rows : {1, 3}) {
    const OtherSides c(n_rows);
    EXPECT_LE(relative_error(run(*other, c.up).at("act"), run(reference(), c.up).at("act")),
              64 * kUnit);
    run(*other, c.down);
    run(*other, c.scan);
    run_both(*other, c.prepare);
    run_both(*other, c.heads.head, c.heads.rows, 1003);
  }
}
#endif

}  // namespace
}  // namespace lily::cases
