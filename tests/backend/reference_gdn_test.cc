// The delta layer's steps against the direct convolution sum and the chunked (WY) form of the delta
// rule; and the laws of segments: split anywhere, side by side, a snapshot a row.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

#include "tests/backend/reference.h"

namespace lily::cases {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

// The case of rows first .. first + n alone, as one segment.
PassControl one_segment(const ModelSpec& spec, int n, Piece piece) {
  Random random(1);
  piece.n_rows = n;
  return make_pass(spec, {piece}, {}, random);
}

GdnPrepareCase part_of(const GdnPrepareCase& c, int first, int n, const Piece& piece) {
  GdnPrepareCase part = c;
  for (auto member : {&GdnPrepareCase::qkv, &GdnPrepareCase::b, &GdnPrepareCase::a}) {
    part.*member = rows_of(c.*member, c.control.n_rows, first, n);
  }
  part.control = one_segment(c.spec, n, piece);
  return part;
}

GdnScanCase part_of(const GdnScanCase& c, int first, int n, const Piece& piece) {
  GdnScanCase part = c;
  for (auto member : {&GdnScanCase::q, &GdnScanCase::k, &GdnScanCase::v, &GdnScanCase::decay,
                      &GdnScanCase::beta, &GdnScanCase::z}) {
    part.*member = rows_of(c.*member, c.control.n_rows, first, n);
  }
  part.control = one_segment(c.spec, n, piece);
  return part;
}

std::vector<float> slot_of(const std::vector<float>& pool, const States& states, int slot) {
  return rows_of(pool, states.n_slots, slot, 1);
}

bool is_pool(const std::string& name) {
  return name == "delta" || name == "conv";
}

// Every per-row result of `whole` is `parts` one after the other.
void expect_rows(const Outputs& whole, int n_rows,
                 const std::vector<std::pair<Outputs, int>>& parts) {
  for (const auto& [name, values] : whole) {
    if (is_pool(name)) continue;
    int first = 0;
    for (const auto& [part, n] : parts) {
      EXPECT_EQ(part.at(name), rows_of(values, n_rows, first, n)) << name << " from row " << first;
      first += n;
    }
  }
}

// States that a second pass finds after a first one.
void carry(States& states, const Outputs& out) {
  states.delta = out.at("delta");
  states.conv = out.at("conv");
}

template <typename Case>
void expect_split_changes_nothing(const Case& c, int split) {
  const int n = c.control.n_rows;
  const auto whole = run(reference(), c);
  const auto first =
      run(reference(),
          part_of(c, 0, split, {.state_in = c.control.segments[0].state_in, .state_out = 1}));
  auto rest = part_of(c, split, n - split, {.position = split, .state_in = 1, .state_out = 1});
  carry(rest.states, first);
  const auto second = run(reference(), rest);
  expect_rows(whole, n, {{first, split}, {second, n - split}});
  const int end = c.control.segments[0].state_out;
  for (const char* pool : {"delta", "conv"}) {
    EXPECT_EQ(slot_of(whole.at(pool), c.states, end), slot_of(second.at(pool), c.states, 1))
        << pool;
  }
}

template <typename Case>
void expect_segments_do_not_meet(const Case& c) {
  const auto together = run(reference(), c);
  std::vector<std::pair<Outputs, int>> alone;
  for (int i = 0; i < c.control.n_segments; ++i) {
    const Segment& s = c.control.segments[i];
    const Piece piece{.position = s.position,
                      .state_in = s.state_in,
                      .state_out = s.state_out,
                      .snapshots = s.snapshots};
    alone.emplace_back(run(reference(), part_of(c, s.first_row, s.n_rows, piece)), s.n_rows);
    for (const char* pool : {"delta", "conv"}) {
      EXPECT_EQ(slot_of(alone.back().first.at(pool), c.states, s.state_out),
                slot_of(together.at(pool), c.states, s.state_out));
    }
  }
  expect_rows(together, c.control.n_rows, alone);
}

// The part of the state that a step writes.
const char* pool_of(const GdnPrepareCase&) {
  return "conv";
}
const char* pool_of(const GdnScanCase&) {
  return "delta";
}

template <typename Case>
void expect_snapshots_are_states_of_rows(const Case& c) {
  const Segment& s = c.control.segments[0];
  const auto pool = run(reference(), c).at(pool_of(c));
  for (int i = 0; i < s.n_rows; ++i) {
    const Piece piece{.position = s.position, .state_in = s.state_in, .state_out = 1};
    const auto until = run(reference(), part_of(c, 0, i + 1, piece)).at(pool_of(c));
    EXPECT_EQ(slot_of(pool, c.states, s.snapshots + i), slot_of(until, c.states, 1)) << "row " << i;
  }
}

// Slots 0 and 1 and `n` rows that continue slot 0.
PassControl long_segment(Random& random, int n, int state_in) {
  return make_pass(odd_spec(), {{.n_rows = n, .state_in = state_in, .state_out = 1}}, {}, random);
}

TEST(ReferenceGdn, ASegmentMayBeSplitAnywhere) {
  EXPECT_TRUE(rc::check([] {
    Random random(*rc::gen::inRange<std::uint64_t>(0, 1 << 20));
    const int n = *rc::gen::inRange(2, 9), split = *rc::gen::inRange(1, n),
              state_in = *rc::gen::inRange(-1, 2);
    expect_split_changes_nothing(
        random_gdn_prepare(random, odd_spec(), long_segment(random, n, state_in)), split);
    expect_split_changes_nothing(
        random_gdn_scan(random, odd_spec(), long_segment(random, n, state_in)), split);
    RC_ASSERT(!::testing::Test::HasFailure());
  }));
}

TEST(ReferenceGdn, SequencesInOnePassAreEachAlone) {
  Random random(3);
  const PassControl control = make_pass(odd_spec(), typical_passes().back(), {}, random);
  expect_segments_do_not_meet(random_gdn_prepare(random, odd_spec(), control));
  expect_segments_do_not_meet(random_gdn_scan(random, odd_spec(), control));
}

TEST(ReferenceGdn, ASnapshotIsTheStateAfterItsRow) {
  Random random(4);
  const PassControl control = make_pass(odd_spec(), typical_passes()[3], {}, random);
  expect_snapshots_are_states_of_rows(random_gdn_prepare(random, odd_spec(), control));
  expect_snapshots_are_states_of_rows(random_gdn_scan(random, odd_spec(), control));
}

TEST(ReferenceGdn, SlotsThatNoSegmentNamesStayAsTheyWere) {
  Random random(5);
  const PassControl control =
      make_pass(odd_spec(), {{.n_rows = 3, .state_in = 2, .state_out = 4}}, {}, random);
  const auto c = random_gdn_scan(random, odd_spec(), control);
  const auto out = run(reference(), c);
  for (int slot = 0; slot < 4; ++slot) {
    EXPECT_EQ(slot_of(out.at("delta"), c.states, slot), slot_of(c.states.delta, c.states, slot));
  }
  EXPECT_EQ(out.at("conv"), c.states.conv);
}

double sigmoid_of(double x) {
  return 0.5 * (1.0 + std::tanh(0.5 * x));
}

// Row t of the convolution's input, the window's rows being t = -3 .. -1.
double input_at(const GdnPrepareCase& c, int t, int channel) {
  const int n = c.spec.conv_dim(), state_in = c.control.segments[0].state_in;
  if (t >= 0) return c.qkv[static_cast<std::size_t>(t * n + channel)];
  return state_in < 0
             ? 0.0
             : c.states.conv[static_cast<std::size_t>((state_in * 3 + 3 + t) * n + channel)];
}

double mixed_at(const GdnPrepareCase& c, int t, int channel) {
  double sum = 0.0;
  for (int j = 0; j < 4; ++j)
    sum +=
        c.conv_weight[static_cast<std::size_t>(4 * channel + j)] * input_at(c, t - 3 + j, channel);
  return sum * sigmoid_of(sum);
}

// The head of 128 channels from `channel`, as a unit vector times sqrt(128) and a scale.
std::vector<float> unit_head(const GdnPrepareCase& c, int t, int channel, double scale) {
  Row x(128);
  double squares = 0.0;
  for (int i = 0; i < 128; ++i)
    squares += std::pow(x[static_cast<std::size_t>(i)] = mixed_at(c, t, channel + i), 2);
  std::vector<float> out;
  for (const double value : x)
    out.push_back(
        static_cast<float>(scale * std::sqrt(128.0) * value / std::sqrt(squares + 128e-6)));
  return out;
}

std::vector<float> head_of(const std::vector<float>& all, int row, int n_heads, int head) {
  const auto first = all.begin() + (row * n_heads + head) * 128;
  return {first, first + 128};
}

class ReferenceGdnPrepare : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(NewAndContinued, ReferenceGdnPrepare, ::testing::Values(-1, 0));

TEST_P(ReferenceGdnPrepare, ConvolvesThenNormsQueriesAndKeys) {
  Random random(8);
  const ModelSpec spec = pocket_spec();
  const auto c = random_gdn_prepare(
      random, spec, make_pass(spec, {{.n_rows = 6, .state_in = GetParam()}}, {}, random));
  const auto out = run(reference(), c);
  for (int t = 0; t < 6; ++t) {
    for (int head = 0; head < spec.n_key_heads; ++head) {
      const auto q = unit_head(c, t, head * 128, 1.0 / 128),
                 k = unit_head(c, t, spec.key_dim() + head * 128, std::pow(128, -0.5));
      EXPECT_LE(relative_error(head_of(out.at("q"), t, spec.n_key_heads, head), q), kOneRounding);
      EXPECT_LE(relative_error(head_of(out.at("k"), t, spec.n_key_heads, head), k), kOneRounding);
    }
    for (int i = 0; i < spec.value_dim(); ++i) {
      const double want = mixed_at(c, t, 2 * spec.key_dim() + i);
      EXPECT_NEAR(out.at("v")[static_cast<std::size_t>(t * spec.value_dim() + i)], want,
                  std::fabs(want) * 1e-7);
    }
  }
}

TEST_P(ReferenceGdnPrepare, GatesLieBetweenZeroAndOneAsTheFormulaSays) {
  Random random(9);
  const ModelSpec spec = odd_spec();
  const auto c = random_gdn_prepare(
      random, spec, make_pass(spec, {{.n_rows = 4, .state_in = GetParam()}}, {}, random));
  const auto out = run(reference(), c);
  for (std::size_t i = 0; i < 12; ++i) {
    // exp(-e^A log(1 + e^x)) = (1 + e^x)^(-e^A)
    const double x = static_cast<double>(c.a[i]) + static_cast<double>(c.dt_bias[i % 3]);
    const double decay =
        std::pow(1.0 + std::exp(x), -std::exp(static_cast<double>(c.a_log[i % 3])));
    EXPECT_NEAR(out.at("decay")[i], decay, 1e-7 * decay + 1e-40);
    EXPECT_NEAR(out.at("beta")[i], sigmoid_of(c.b[i]), 1e-7);
  }
}

TEST_P(ReferenceGdnPrepare, LeavesTheLastThreeRowsAsWindow) {
  Random random(10);
  const ModelSpec spec = odd_spec();
  for (const int n : {1, 2, 5}) {
    const auto c = random_gdn_prepare(
        random, spec, make_pass(spec, {{.n_rows = n, .state_in = GetParam()}}, {}, random));
    const auto window = run(reference(), c).at("conv");
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < spec.conv_dim(); ++i) {
        ASSERT_EQ(window[static_cast<std::size_t>(j * spec.conv_dim() + i)],
                  input_at(c, n - 3 + j, i));
      }
    }
  }
}

// One head's inputs as rows, with its state S0 [key][value].
struct Head {
  Rows q, k, v, s0;
  Row log_decay, beta;
};

Rows rows_at(const std::vector<float>& all, int n_rows, int n_heads, int head) {
  Rows out;
  for (int t = 0; t < n_rows; ++t) {
    const auto row = head_of(all, t, n_heads, head);
    out.emplace_back(row.begin(), row.end());
  }
  return out;
}

Head head_of_case(const GdnScanCase& c, int head) {
  const ModelSpec& s = c.spec;
  const int n = c.control.n_rows, key_head = head / (s.n_value_heads / s.n_key_heads);
  Head h{rows_at(c.q, n, s.n_key_heads, key_head),
         rows_at(c.k, n, s.n_key_heads, key_head),
         rows_at(c.v, n, s.n_value_heads, head),
         {},
         {},
         {}};
  for (int t = 0; t < n; ++t) {
    h.log_decay.push_back(std::log(c.decay[static_cast<std::size_t>(t * s.n_value_heads + head)]));
    h.beta.push_back(c.beta[static_cast<std::size_t>(t * s.n_value_heads + head)]);
  }
  const int slot = c.control.segments[0].state_in;
  for (int i = 0; i < 128; ++i) {
    h.s0.emplace_back(128, 0.0);
    for (int j = 0; j < 128 && slot >= 0; ++j) {
      h.s0.back()[static_cast<std::size_t>(j)] = c.states.delta[static_cast<std::size_t>(
          ((slot * s.n_value_heads + head) * 128 + i) * 128 + j)];
    }
  }
  return h;
}

double inner(const Row& a, const Row& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Row through(const Row& x, const Rows& matrix) {
  Row y(matrix.front().size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < y.size(); ++j) y[j] += x[i] * matrix[i][j];
  }
  return y;
}

void add_scaled(Row& to, double factor, const Row& from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * from[i];
}

struct Chunk {
  Rows outputs, state;
};

// All tokens as one chunk: writes V' by a triangular solve, then outputs and the end state as sums
// over them.
Chunk chunked(const Head& h) {
  const std::size_t n = h.q.size();
  Row g(n);
  for (std::size_t i = 0; i < n; ++i) g[i] = h.log_decay[i] + (i > 0 ? g[i - 1] : 0.0);
  Rows written;
  Chunk out{{}, h.s0};
  for (std::size_t i = 0; i < n; ++i) {
    Row v = h.v[i];
    add_scaled(v, -std::exp(g[i]), through(h.k[i], h.s0));
    for (double& x : v) x *= h.beta[i];
    for (std::size_t j = 0; j < i; ++j)
      add_scaled(v, -h.beta[i] * inner(h.k[i], h.k[j]) * std::exp(g[i] - g[j]), written[j]);
    written.push_back(v);
    Row o(128);
    add_scaled(o, std::exp(g[i]), through(h.q[i], h.s0));
    for (std::size_t j = 0; j <= i; ++j)
      add_scaled(o, inner(h.q[i], h.k[j]) * std::exp(g[i] - g[j]), written[j]);
    out.outputs.push_back(o);
  }
  for (std::size_t d = 0; d < 128; ++d) {
    for (double& x : out.state[d]) x *= std::exp(g[n - 1]);
    for (std::size_t j = 0; j < n; ++j)
      add_scaled(out.state[d], std::exp(g[n - 1] - g[j]) * h.k[j][d], written[j]);
  }
  return out;
}

std::vector<float> gated(const GdnScanCase& c, const Row& o, int t, int head) {
  const std::vector<float> rounded(o.begin(), o.end());
  auto y = normed(rounded, 0, c.norm, c.spec.rms_eps);
  const auto z = head_of(c.z, t, c.spec.n_value_heads, head);
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] *= sigmoid_of(z[i]) *
            (c.spec.z_activation == ZActivation::kSilu ? static_cast<double>(z[i]) : 1.0);
  }
  return {y.begin(), y.end()};
}

// The state is rounded once a token, so errors grow with the tokens of the segment.
TEST(ReferenceGdnScan, TheRecurrenceEqualsTheChunkedForm) {
  constexpr int kTokens = 37;
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    for (const int state_in : {-1, 0}) {
      Random random(12);
      const auto c = random_gdn_scan(
          random, spec,
          make_pass(spec, {{.n_rows = kTokens, .state_in = state_in, .state_out = 0}}, {}, random));
      const auto out = run(reference(), c);
      for (const int head : {0, spec.n_value_heads - 1}) {
        const auto want = chunked(head_of_case(c, head));
        std::vector<float> state;
        for (const auto& row : want.state) state.insert(state.end(), row.begin(), row.end());
        EXPECT_LE(relative_error(rows_of(out.at("delta"), spec.n_value_heads, head, 1), state),
                  kTokens * kOneRounding);
        for (int t = 0; t < kTokens; ++t) {
          EXPECT_LE(relative_error(head_of(out.at("y"), t, spec.n_value_heads, head),
                                   gated(c, want.outputs[static_cast<std::size_t>(t)], t, head)),
                    kTokens * kFewRoundings);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lily::cases
