// The attention layer's steps against rotations of complex numbers and a softmax over matrices.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "tests/backend/reference.h"

namespace lily::cases {
namespace {

// Row t of the pass: its segment's sequence and its own position.
struct Place {
  int sequence, position;
};
std::vector<Place> places_of(const PassControl& control) {
  std::vector<Place> places;
  for (int s = 0; s < control.n_segments; ++s) {
    const Segment& segment = control.segments[s];
    for (int i = 0; i < segment.n_rows; ++i)
      places.push_back({segment.sequence, segment.position + i});
  }
  return places;
}

std::vector<float> slice(const std::vector<float>& all, std::size_t first) {
  return {all.begin() + static_cast<std::ptrdiff_t>(first),
          all.begin() + static_cast<std::ptrdiff_t>(first) + 256};
}

// rmsnorm, then the pairs (i, i + 32) as complex numbers times magnitude e^(i angle).
std::vector<float> turned(const std::vector<float>& x, const std::vector<float>& norm, int position,
                          const RopeSpec& rope, double scale) {
  auto y = normed(x, 0, norm, 1e-6);
  const auto frequencies = rope_frequencies(rope);
  for (std::size_t i = 0; i < 32; ++i) {
    const double angle = rope.factor == 1.0 ? position / std::pow(1e7, static_cast<double>(i) / 32)
                                            : position * frequencies[i];
    const auto z = std::complex<double>(y[i], y[i + 32]) *
                   std::polar(rope.factor == 1.0 ? 1.0 : 0.1 * std::log(rope.factor) + 1.0, angle);
    y[i] = z.real();
    y[i + 32] = z.imag();
  }
  for (double& value : y) value *= scale;
  return {y.begin(), y.end()};
}

class ReferenceAttentionPrepare : public ::testing::TestWithParam<double> {
 protected:
  ReferenceAttentionPrepare() {
    spec_.rope.factor = GetParam();
    spec_.rope.original_context = 4096;
    Random random(2);
    case_ = random_attention_prepare(random, spec_,
                                     make_pass(spec_, typical_passes().back(), {}, random));
    out_ = run(reference(), case_);
  }
  ModelSpec spec_ = pocket_spec();
  AttentionPrepareCase case_;
  Outputs out_;
};
INSTANTIATE_TEST_SUITE_P(PlainAndYarn, ReferenceAttentionPrepare, ::testing::Values(1.0, 4.0));

TEST_P(ReferenceAttentionPrepare, TurnsQueriesByTheirPosition) {
  const auto places = places_of(case_.control);
  for (std::size_t t = 0; t < places.size(); ++t) {
    for (std::size_t head = 0; head < 16; ++head) {
      const std::size_t index = t * 16 + head;
      const auto want = turned(slice(case_.q_gate, index * 512), case_.q_norm, places[t].position,
                               spec_.rope, 1.0 / 16);
      EXPECT_LE(relative_error(slice(out_.at("q"), index * 256), want), kFewRoundings);
    }
  }
}

TEST_P(ReferenceAttentionPrepare, WritesKeysAndValuesWhereThePageTableSays) {
  const auto places = places_of(case_.control);
  auto want = case_.kv.pages;
  for (std::size_t t = 0; t < places.size(); ++t) {
    for (int head = 0; head < spec_.n_kv_heads; ++head) {
      const std::size_t from = (t * 2 + static_cast<std::size_t>(head)) * 256;
      const auto key = kv_offset(spec_, case_.kv, places[t].sequence, places[t].position, head, 0);
      const auto value =
          kv_offset(spec_, case_.kv, places[t].sequence, places[t].position, head, 1);
      EXPECT_LE(
          relative_error(slice(out_.at("kv"), key), turned(slice(case_.k, from), case_.k_norm,
                                                           places[t].position, spec_.rope, 1.0)),
          kFewRoundings);
      for (std::size_t i = 0; i < 256; ++i) {
        want[key + i] = out_.at("kv")[key + i];
        want[value + i] = case_.v[from + i];
      }
    }
  }
  EXPECT_EQ(out_.at("kv"), want);  // Nothing else has changed.
}

// softmax(q K^T) V gated, in long double, all positions at once.
std::vector<float> attended(const AttentionCase& c, std::size_t t, Place place, int head) {
  const auto n = static_cast<std::size_t>(place.position) + 1;
  const int kv_head = head * c.spec.n_kv_heads / c.spec.n_q_heads;
  const std::size_t index =
      t * static_cast<std::size_t>(c.spec.n_q_heads) + static_cast<std::size_t>(head);
  const auto element = [&](std::size_t p, int part, std::size_t i) -> long double {
    return c.kv
        .pages[kv_offset(c.spec, c.kv, place.sequence, static_cast<int>(p), kv_head, part) + i];
  };
  std::vector<long double> e(n), mix(256);
  long double sum = 0.0L;
  for (std::size_t p = 0; p < n; ++p) {
    long double score = 0.0L;
    for (std::size_t i = 0; i < 256; ++i) score += c.q[index * 256 + i] * element(p, 0, i);
    sum += e[p] = std::exp(score);
  }
  std::vector<float> y;
  for (std::size_t i = 0; i < 256; ++i) {
    for (std::size_t p = 0; p < n; ++p) mix[i] += e[p] / sum * element(p, 1, i);
    y.push_back(static_cast<float>(
        mix[i] / (1.0L + std::exp(-static_cast<long double>(c.q_gate[index * 512 + 256 + i])))));
  }
  return y;
}

TEST(ReferenceAttention, IsTheGatedSoftmaxOverThePast) {
  for (const auto& spec : {pocket_spec(), odd_spec()}) {
    Random random(3);
    const auto c =
        random_attention(random, spec, make_pass(spec, typical_passes().back(), {}, random));
    const auto out = run(reference(), c).at("y");
    const auto places = places_of(c.control);
    for (std::size_t t = 0; t < places.size(); ++t) {
      for (int head = 0; head < spec.n_q_heads; ++head) {
        const std::size_t index =
            t * static_cast<std::size_t>(spec.n_q_heads) + static_cast<std::size_t>(head);
        EXPECT_LE(relative_error(slice(out, index * 256), attended(c, t, places[t], head)),
                  kOneRounding * 1.01);
      }
    }
  }
}

TEST(ReferenceAttention, ScoresThatWouldOverflowDoNot) {
  const ModelSpec spec = odd_spec();
  Random random(4);
  auto c =
      random_attention(random, spec, make_pass(spec, {{.n_rows = 1, .position = 70}}, {}, random));
  for (float& x : c.q) x *= 1e4f;
  const auto out = run(reference(), c);
  for (const float y : out.at("y")) ASSERT_LE(std::fabs(y), 1.0f);
}

TEST(ReferenceAttention, ARowsResultDoesNotDependOnItsNeighbours) {
  const ModelSpec spec = odd_spec();
  Random random(5);
  const auto c =
      random_attention(random, spec, make_pass(spec, typical_passes().back(), {}, random));
  const auto together = run(reference(), c).at("y");
  for (int s = 0; s < c.control.n_segments; ++s) {
    const Segment& segment = c.control.segments[s];
    for (int i = 0; i < segment.n_rows; ++i) {
      AttentionCase alone = c;
      alone.control = make_pass(
          spec, {{.position = segment.position + i, .sequence = segment.sequence}}, {}, random);
      alone.q = rows_of(c.q, c.control.n_rows, segment.first_row + i, 1);
      alone.q_gate = rows_of(c.q_gate, c.control.n_rows, segment.first_row + i, 1);
      EXPECT_EQ(run(reference(), alone).at("y"),
                rows_of(together, c.control.n_rows, segment.first_row + i, 1));
    }
  }
}

}  // namespace
}  // namespace lily::cases
