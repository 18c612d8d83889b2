// gdn_prepare and gdn_scan on the CPU: near the reference, and the same bits for every instruction
// set, number of threads, split into chunks and company in the pass.
#include <cmath>

#include "tests/backend/cpu.h"
#include "tests/backend/mixer_parts.h"

namespace lily::cases {
namespace {

// One long segment in pieces of `step` rows, the state handed on in place: rows and final state as
// in one pass.
template <typename Case>
void expect_split(const Case& whole, const std::vector<std::vector<float> Case::*>& members,
                  int step) {
  const int n_rows = whole.control.n_rows;
  const Outputs want = run(cpu_backend(), whole);
  Case rest = whole;
  Outputs got;
  for (int first = 0; first < n_rows; first += step) {
    const int n = std::min(step, n_rows - first);
    const Case part = part_of(rest, members, first,
                              {.n_rows = n, .position = first, .state_in = 0, .state_out = 0});
    got = run(cpu_backend(), part);
    set_pool(rest, got);
    for (const auto& [name, values] : got) {
      if (!is_pool(name)) {
        ASSERT_EQ(values, rows_of(want.at(name), n_rows, first, n))
            << name << " at " << first << " of step " << step;
      }
    }
  }
  EXPECT_EQ(pool_of(got), pool_of(want)) << "step " << step;
}

PassControl long_segment(const ModelSpec& spec, int n_rows) {
  Random random(1);
  return make_pass(spec, {{.n_rows = n_rows, .position = 3, .state_in = 0, .state_out = 0}}, {},
                   random);
}

TEST(CpuGdn, PrepareIsNearTheReference) {
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    for (const auto& pieces : typical_passes()) {
      Random random(11);
      const auto c = random_gdn_prepare(random, spec, make_pass(spec, pieces, {}, random));
      const Outputs got = run(cpu_backend(), c), want = run(reference(), c);
      // SiLU of four products, then a norm over 128: half of the sum's error survives the root.
      for (const char* name : {"q", "k", "v"})
        EXPECT_LE(relative_error(got.at(name), want.at(name)), (64 + 8) * kUnit) << name;
      EXPECT_LE(largest_error(got.at("beta"), want.at("beta")), 4 * kUnit);
      // x e^-x is at most 1/e: a relative error of the exponent shows as less than itself.
      EXPECT_LE(largest_error(got.at("decay"), want.at("decay")), 8 * kUnit);
      EXPECT_EQ(got.at("conv"), want.at("conv"));
    }
  }
}

TEST(CpuGdn, ScanIsNearTheReference) {
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    for (const auto& pieces : typical_passes()) {
      Random random(12);
      const auto c = random_gdn_scan(random, spec, make_pass(spec, pieces, {}, random));
      const Outputs got = run(cpu_backend(), c), want = run(reference(), c);
      EXPECT_LE(relative_error(got.at("delta"), want.at("delta")), 260 * kUnit);
      EXPECT_LE(relative_error(got.at("y"), want.at("y")), 2 * 260 * kUnit);
    }
  }
}

TEST(CpuGdn, BitsDoNotDependOnInstructionSetOrThreads) {
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    for (const auto& pieces : typical_passes()) {
      Random random(13);
      const auto control = make_pass(spec, pieces, {}, random);
      run_everywhere(random_gdn_prepare(random, spec, control));
      run_everywhere(random_gdn_scan(random, spec, control));
    }
  }
}

TEST(CpuGdn, ChunksOfAnySizeGiveTheBitsOfOnePass) {
  Random random(14);
  const auto spec = pocket_spec();
  const auto prepare = random_gdn_prepare(random, spec, long_segment(spec, 131));
  const auto scan = random_gdn_scan(random, spec, long_segment(spec, 131));
  for (const int step : {1, 2, 3, 63, 64, 65}) {
    expect_split(prepare, kPrepareRows, step);
    expect_split(scan, kScanRows, step);
  }
}

TEST(CpuGdn, ASegmentBesideOthersGivesTheBitsOfItAlone) {
  const auto spec = pocket_spec();
  const auto pieces = typical_passes().back();
  Random random(15);
  const auto control = make_pass(spec, pieces, {}, random);
  const auto prepare = random_gdn_prepare(random, spec, control);
  const auto scan = random_gdn_scan(random, spec, control);
  const Outputs prepared = run(cpu_backend(), prepare), scanned = run(cpu_backend(), scan);
  int first = 0;
  for (const auto& piece : pieces) {
    const auto expect_alone = [&](const Outputs& alone, const Outputs& all) {
      for (const auto& [name, values] : alone) {
        if (!is_pool(name)) {
          EXPECT_EQ(values, rows_of(all.at(name), control.n_rows, first, piece.n_rows)) << name;
          continue;
        }
        const int n_slots = prepare.states.n_slots;
        EXPECT_EQ(rows_of(values, n_slots, piece.state_out, 1),
                  rows_of(all.at(name), n_slots, piece.state_out, 1));
      }
    };
    expect_alone(run(cpu_backend(), part_of(prepare, kPrepareRows, first, piece)), prepared);
    expect_alone(run(cpu_backend(), part_of(scan, kScanRows, first, piece)), scanned);
    first += piece.n_rows;
  }
}

// With snapshots a row's slot holds what a pass ending there leaves.
TEST(CpuGdn, SnapshotsAreTheStatesOfShorterPasses) {
  const auto spec = pocket_spec();
  for (const int n : {2, 3, 7}) {
    Random random(16);
    const auto control =
        make_pass(spec, {{.n_rows = n, .state_in = 0, .state_out = 1, .snapshots = 2}}, {}, random);
    const auto scan = random_gdn_scan(random, spec, control);
    const auto prepare = random_gdn_prepare(random, spec, control);
    const Outputs scanned = run(cpu_backend(), scan), prepared = run(cpu_backend(), prepare);
    const int n_slots = scan.states.n_slots;
    for (int i = 0; i < n; ++i) {
      const Piece piece{.n_rows = i + 1, .state_in = 0, .state_out = 1};
      const Outputs s = run(cpu_backend(), part_of(scan, kScanRows, 0, piece));
      const Outputs p = run(cpu_backend(), part_of(prepare, kPrepareRows, 0, piece));
      EXPECT_EQ(rows_of(scanned.at("delta"), n_slots, 2 + i, 1),
                rows_of(s.at("delta"), n_slots, 1, 1));
      EXPECT_EQ(rows_of(prepared.at("conv"), n_slots, 2 + i, 1),
                rows_of(p.at("conv"), n_slots, 1, 1));
    }
    EXPECT_EQ(rows_of(scanned.at("delta"), n_slots, 1, 1),
              rows_of(scanned.at("delta"), n_slots, 1 + n, 1));
  }
}

// Prompts shorter than the window: as feeding the tokens one at a time, from an empty state.
TEST(CpuGdn, ShortPromptsEqualTokensOneAtATime) {
  const auto spec = pocket_spec();
  for (const int n : {1, 2, 3, 4, 5}) {
    Random random(17);
    const auto whole =
        random_gdn_prepare(random, spec, make_pass(spec, {{.n_rows = n}}, {}, random));
    const Outputs want = run(cpu_backend(), whole);
    GdnPrepareCase rest = whole;
    Outputs got;
    for (int row = 0; row < n; ++row) {
      got = run(cpu_backend(),
                part_of(rest, kPrepareRows, row, {.position = row, .state_in = row == 0 ? -1 : 0}));
      set_pool(rest, got);
      for (const char* name : {"q", "k", "v"})
        EXPECT_EQ(got.at(name), rows_of(want.at(name), n, row, 1)) << n << " " << row;
    }
    EXPECT_EQ(got.at("conv"), want.at("conv")) << n;
  }
}

// The delta rule of one head in f64 throughout, and how far a run that rounds its state by
// `rounded` moves away from it.
struct LongRun {
  std::vector<float> q, k, v, decay, beta;
};

LongRun long_run(int n_rows, Random& random) {
  LongRun r{.q = {},
            .k = {},
            .v = random.floats(static_cast<std::size_t>(n_rows) * kDeltaDim),
            .decay = {},
            .beta = {}};
  r.decay = random.floats(static_cast<std::size_t>(n_rows), 0.9f, 0.9999f);
  r.beta = random.floats(static_cast<std::size_t>(n_rows), 0.05f, 0.95f);
  for (auto* to : {&r.q, &r.k}) {
    for (int t = 0; t < n_rows; ++t) {
      auto row = random.floats(kDeltaDim);
      float squares = 0.0f;
      for (const float x : row) squares += x * x;
      for (const float x : row) to->push_back(x / std::sqrt(squares));
    }
  }
  return r;
}

template <typename Round>
std::vector<double> delta_rule(const LongRun& r, Round rounded) {
  std::vector<double> state(kDeltaDim * kDeltaDim, 0.0);
  for (std::size_t t = 0; t < r.decay.size(); ++t) {
    const float *k = r.k.data() + t * kDeltaDim, *v = r.v.data() + t * kDeltaDim;
    std::vector<double> read(kDeltaDim, 0.0);
    for (std::size_t i = 0; i < kDeltaDim; ++i) {
      for (std::size_t j = 0; j < kDeltaDim; ++j)
        read[j] += double{k[i]} * double{r.decay[t]} * state[i * kDeltaDim + j];
    }
    for (std::size_t i = 0; i < kDeltaDim; ++i) {
      for (std::size_t j = 0; j < kDeltaDim; ++j) {
        double& s = state[i * kDeltaDim + j];
        s = rounded(double{r.decay[t]} * s +
                    double{k[i]} * double{r.beta[t]} * (double{v[j]} - read[j]));
      }
    }
  }
  return state;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double error = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(error / norm);
}

std::vector<double> scan_in_chunks(const LongRun& r, int n_rows) {
  constexpr int kChunk = 1024;
  ModelSpec spec = odd_spec();
  spec.n_key_heads = spec.n_value_heads = 1;
  GdnScanCase c;
  Random random(2);
  c.spec = spec;
  c.norm = std::vector<float>(kDeltaDim, 1.0f);
  c.states = {.n_slots = 1,
              .delta = std::vector<float>(kDeltaDim * kDeltaDim),
              .conv = std::vector<float>(3 * static_cast<std::size_t>(spec.conv_dim()))};
  for (int first = 0; first < n_rows; first += kChunk) {
    c.control = make_pass(spec, {{.n_rows = kChunk, .position = first, .state_in = 0}}, {}, random);
    c.q = rows_of(r.q, n_rows, first, kChunk);
    c.k = rows_of(r.k, n_rows, first, kChunk);
    c.v = c.z = rows_of(r.v, n_rows, first, kChunk);
    c.decay = rows_of(r.decay, n_rows, first, kChunk);
    c.beta = rows_of(r.beta, n_rows, first, kChunk);
    c.states.delta = run(cpu_backend(), c).at("delta");
  }
  return {c.states.delta.begin(), c.states.delta.end()};
}

// R033. A token of decay g forgets old roundings: with a mean decay near 0.95 about 20 tokens' worth of
// 260 u each remain at worst, and roundings being of either sign, far less. A state kept in bf16
// does not pass.
TEST(CpuGdn, StateDoesNotDriftOverSixteenThousandTokens) {
  constexpr int kTokens = 16384;
  Random random(18);
  const LongRun r = long_run(kTokens, random);
  const auto exact = delta_rule(r, [](double x) { return x; });
  constexpr double kBound = 1e-5;
  EXPECT_LE(distance(scan_in_chunks(r, kTokens), exact), kBound);
  const auto bf16 = delta_rule(
      r, [](double x) { return double{bf16_to_float(float_to_bf16(static_cast<float>(x)))}; });
  EXPECT_GT(distance(bf16, exact), kBound);
}

}  // namespace
}  // namespace lily::cases
