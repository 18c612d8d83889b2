// choose: the sampling pipeline step by step, against a second one over whole distributions, and as
// frequencies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/random.h"
#include "tests/backend/reference.h"

namespace lily::cases {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// One row over a vocabulary of logits.size(), nothing said yet, every option off.
ChooseCase one_row(std::vector<float> logits) {
  ChooseCase c;
  c.vocab_rows = c.vocab_used = static_cast<int>(logits.size());
  c.rows.resize(1);
  c.rows[0].generated.resize(logits.size());
  c.rows[0].in_prompt.resize(logits.size());
  c.logits = std::move(logits);
  return c;
}

int token_of(const ChooseCase& c) {
  return static_cast<int>(run(reference(), c).at("token")[0]);
}

// Which tokens come up at all, and how often, over `n` draws.
std::map<int, int> histogram(ChooseCase c, int n) {
  std::map<int, int> counts;
  for (int i = 0; i < n; ++i) {
    c.rows[0].control.draw = static_cast<std::uint64_t>(i);
    ++counts[token_of(c)];
  }
  return counts;
}

std::vector<int> drawn(const ChooseCase& c) {
  std::vector<int> ids;
  for (const auto& [id, count] : histogram(c, 400)) ids.push_back(id);
  return ids;
}

// Probabilities 0.4, 0.3, 0.2, 0.1 of tokens 2, 0, 3, 1.
ChooseCase four(float temperature) {
  auto c = one_row({std::log(0.3f), std::log(0.1f), std::log(0.4f), std::log(0.2f)});
  c.rows[0].control.temperature = temperature;
  return c;
}

TEST(ReferenceChoose, GreedyTakesTheLargestAndOfEqualsTheLowerId) {
  EXPECT_EQ(token_of(one_row({1.0f, 5.0f, 5.0f, 2.0f})), 1);
}

TEST(ReferenceChoose, PaddingIsNeverChosen) {
  auto c = one_row({1.0f, 2.0f, 9.0f});
  c.vocab_used = 2;
  EXPECT_EQ(token_of(c), 1);
}

TEST(ReferenceChoose, TheMaskNamesWhatMayBeChosen) {
  auto c = one_row({1.0f, 5.0f, 4.0f});
  c.rows[0].allowed = {0b101u};
  EXPECT_EQ(token_of(c), 2);
  c.rows[0].allowed = {0u};
  const auto out = run(reference(), c);
  EXPECT_EQ(out.at("token")[0], -1.0f);
  EXPECT_EQ(out.at("not_finite")[0], 0.0f);
}

TEST(ReferenceChoose, MaskBitsCountAcrossWords) {
  auto c = one_row(std::vector<float>(70, 0.0f));
  c.rows[0].allowed = {0u, 0u, 1u << 5};
  EXPECT_EQ(token_of(c), 69);
}

TEST(ReferenceChoose, BiasMovesATokenAndMinusInfinityBansIt) {
  auto c = one_row({1.0f, 5.0f, 4.0f});
  c.rows[0].bias = {{0, 4.5f}, {3, 100.0f}, {-1, 100.0f}};  // Ids outside the vocabulary fall away.
  EXPECT_EQ(token_of(c), 0);
  c.rows[0].bias = {{1, -std::numeric_limits<float>::infinity()}};
  EXPECT_EQ(token_of(c), 2);
}

TEST(ReferenceChoose, RepetitionDividesPositiveAndMultipliesNegativeLogits) {
  auto c = one_row({4.0f, 3.0f, 2.5f});
  c.rows[0].control.repetition_penalty = 2.0f;
  c.rows[0].in_prompt[0] = 1;  // 4 -> 2
  c.rows[0].generated[1] = 1;  // 3 -> 1.5
  EXPECT_EQ(token_of(c), 2);
  auto negative = one_row({-2.0f, -3.0f});
  negative.rows[0].control.repetition_penalty = 2.0f;
  negative.rows[0].in_prompt[0] = 1;  // -2 -> -4
  EXPECT_EQ(token_of(negative), 1);
}

TEST(ReferenceChoose, FrequencyCountsAndPresenceDoesNotAndThePromptIsFree) {
  auto c = one_row({4.0f, 3.0f, 2.0f});
  c.rows[0].generated = {3, 1, 0};
  c.rows[0].in_prompt = {0, 0, 1};
  c.rows[0].control.frequency_penalty = 0.5f;  // 2.5, 2.5, 2
  EXPECT_EQ(token_of(c), 0);
  c.rows[0].control.frequency_penalty = 0.6f;  // 2.2, 2.4, 2
  EXPECT_EQ(token_of(c), 1);
  c.rows[0].control.frequency_penalty = 0.0f;
  c.rows[0].control.presence_penalty = 1.5f;  // 2.5, 1.5, 2
  EXPECT_EQ(token_of(c), 0);
  c.rows[0].control.presence_penalty = 2.5f;  // 1.5, 0.5, 2
  EXPECT_EQ(token_of(c), 2);
}

TEST(ReferenceChoose, BiasComesBeforeRepetition) {
  auto c = one_row({-1.0f, 1.4f});
  c.rows[0].bias = {{0, 4.0f}};  // 3, then 1.5. Repetition first would give -2, then 2.
  c.rows[0].control.repetition_penalty = 2.0f;
  c.rows[0].in_prompt[0] = 1;
  EXPECT_EQ(token_of(c), 0);
  c.logits[1] = 1.6f;
  EXPECT_EQ(token_of(c), 1);
}

TEST(ReferenceChoose, FrequenciesFollowTheProbabilities) {
  constexpr int kDraws = 4000;
  auto counts = histogram(four(1.0f), kDraws);
  const double wanted[] = {0.3, 0.1, 0.4, 0.2};
  for (int id = 0; id < 4; ++id) {
    const double deviation = std::sqrt(kDraws * wanted[id] * (1.0 - wanted[id]));
    EXPECT_NEAR(counts[id], kDraws * wanted[id], 4.0 * deviation);
  }
}

TEST(ReferenceChoose, TemperatureIsAPowerOfTheProbabilities) {
  constexpr int kDraws = 4000;
  auto counts = histogram(four(0.5f), kDraws);  // Squares: 16, 9, 4, 1 of 30.
  EXPECT_NEAR(counts[2], kDraws * 16.0 / 30.0, 4.0 * std::sqrt(kDraws * 0.25));
  EXPECT_NEAR(counts[1], kDraws / 30.0, 4.0 * std::sqrt(kDraws / 30.0));
}

TEST(ReferenceChoose, AVerySmallTemperatureIsGreedy) {
  EXPECT_EQ(drawn(four(1e-30f)), std::vector<int>{2});
}

TEST(ReferenceChoose, TopKKeepsExactlyKAndOfEqualsTheLowerIds) {
  auto c = four(1.0f);
  c.rows[0].control.top_k = 2;
  EXPECT_EQ(drawn(c), (std::vector<int>{0, 2}));
  auto equal = one_row({1.0f, 1.0f, 1.0f, 2.0f});
  equal.rows[0].control.temperature = 1.0f;
  equal.rows[0].control.top_k = 3;
  EXPECT_EQ(drawn(equal), (std::vector<int>{0, 1, 3}));
}

TEST(ReferenceChoose, TopPKeepsTheSmallestSetThatReachesTheMass) {
  auto c = four(1.0f);
  for (const auto& [top_p, ids] : std::map<float, std::vector<int>>{{0.0f, {2}},
                                                                    {0.39f, {2}},
                                                                    {0.41f, {0, 2}},
                                                                    {0.69f, {0, 2}},
                                                                    {0.71f, {0, 2, 3}},
                                                                    {0.95f, {0, 1, 2, 3}}}) {
    c.rows[0].control.top_p = top_p;
    EXPECT_EQ(drawn(c), ids) << top_p;
  }
}

TEST(ReferenceChoose, TopPMeasuresTheMassThatTopKLeft) {
  auto c = four(1.0f);
  c.rows[0].control.top_k = 2;     // 4/7 and 3/7
  c.rows[0].control.top_p = 0.5f;  // Of all four it would take two.
  EXPECT_EQ(drawn(c), std::vector<int>{2});
}

TEST(ReferenceChoose, TopPComesAfterTemperature) {
  auto c = four(0.5f);  // 16/30 of token 2
  c.rows[0].control.top_p = 0.5f;
  EXPECT_EQ(drawn(c), std::vector<int>{2});
}

TEST(ReferenceChoose, MinPIsAShareOfTheLargest) {
  auto c = four(1.0f);
  for (const auto& [min_p, ids] : std::map<float, std::vector<int>>{
           {0.2f, {0, 1, 2, 3}}, {0.3f, {0, 2, 3}}, {0.6f, {0, 2}}, {0.8f, {2}}, {1.0f, {2}}}) {
    c.rows[0].control.min_p = min_p;
    EXPECT_EQ(drawn(c), ids) << min_p;
  }
}

TEST(ReferenceChoose, ADrawIsAFunctionOfSeedAndIndex) {
  auto c = four(1.0f);
  const auto first = histogram(c, 50);
  EXPECT_EQ(histogram(c, 50), first);
  std::vector<int> one, other;
  for (int i = 0; i < 50; ++i) {
    c.rows[0].control.draw = static_cast<std::uint64_t>(i);
    c.rows[0].control.seed = 1;
    one.push_back(token_of(c));
    c.rows[0].control.seed = 2;
    other.push_back(token_of(c));
  }
  EXPECT_NE(one, other);
}

TEST(ReferenceChoose, CountsItsTokenAndHandsItToTheNextPass) {
  auto c = one_row({1.0f, 5.0f, 2.0f});
  c.rows[0].generated = {7, 2, 0};
  const auto out = run(reference(), c);
  EXPECT_EQ(out.at("generated"), (std::vector<float>{7, 3, 0}));
  EXPECT_EQ(out.at("next_tokens"), std::vector<float>{1});
}

TEST(ReferenceChoose, ReportsTheModelsOwnLogProbabilities) {
  auto c = four(0.7f);
  c.rows[0].bias = {{1, 50.0f}};
  c.rows[0].control.n_top = 3;
  const auto out = run(reference(), c);
  EXPECT_EQ(out.at("token")[0], 1.0f);
  EXPECT_NEAR(out.at("log_prob")[0], std::log(0.1), 1e-6);
  EXPECT_EQ(out.at("top_ids"), (std::vector<float>{2, 0, 3}));
  EXPECT_NEAR(out.at("top_log_probs")[0], std::log(0.4), 1e-6);
}

TEST(ReferenceChoose, ReportsNoMoreAlternativesThanTheVocabularyHolds) {
  auto c = four(1.0f);
  c.rows[0].control.n_top = kMaxTopLogProbs;
  EXPECT_EQ(run(reference(), c).at("n_top")[0], 4.0f);
}

TEST(ReferenceChoose, ARowThatIsNotFiniteHasNoToken) {
  auto c = one_row({1.0f, 2.0f, kNan, 3.0f, 2.0f, 1.0f});
  c.vocab_rows = c.vocab_used = 3;
  c.rows[0].generated.resize(3);
  c.rows.push_back(c.rows[0]);
  const auto out = run(reference(), c);
  EXPECT_EQ(out.at("token"), (std::vector<float>{-1, 0}));
  EXPECT_EQ(out.at("not_finite"), (std::vector<float>{1, 0}));
  EXPECT_EQ(out.at("generated"), (std::vector<float>{0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(out.at("next_tokens"), (std::vector<float>{0, 0}));  // A token the next pass can embed.
}

// A second pipeline, over a whole distribution: cuts set probabilities to zero, then one walk down
// the order.
class Distribution {
 public:
  Distribution(const Sampling& s, std::vector<float> logits) : control_(s.control) {
    for (const auto& [id, bias] : s.bias) logits[static_cast<std::size_t>(id)] += bias;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      float& x = logits[i];
      if (s.generated[i] > 0 || s.in_prompt[i] != 0)
        x = x > 0 ? x / control_.repetition_penalty : x * control_.repetition_penalty;
      x -= control_.frequency_penalty * static_cast<float>(s.generated[i]);
      if (s.generated[i] > 0) x -= control_.presence_penalty;
      if (s.allowed.empty() || ((s.allowed[i / 32] >> (i % 32)) & 1u) != 0) order_.push_back(i);
    }
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
    const double t = control_.temperature > 0 ? control_.temperature : 1.0;
    for (const auto i : order_) p_.push_back(std::exp((logits[i] - logits[order_[0]]) / t));
  }

  std::size_t choose() {
    if (control_.temperature == 0.0f) return order_[0];
    for (std::size_t i = 0; i < p_.size(); ++i)
      p_[i] *= control_.top_k == 0 || i < static_cast<std::size_t>(control_.top_k);
    normalise();
    double before = 0.0;
    for (double& p : p_) {
      const double here = p;
      if (before >= control_.top_p && before > 0.0) p = 0.0;
      before += here;
    }
    for (double& p : p_) p *= p >= control_.min_p * p_[0];
    normalise();
    double u = uniform_draw(control_.seed, control_.draw);
    std::size_t i = 0;
    while (i + 1 < p_.size() && u >= p_[i]) u -= p_[i++];
    return order_[i];
  }

 private:
  void normalise() {
    double sum = 0.0;
    for (const double p : p_) sum += p;
    for (double& p : p_) p /= sum;
  }

  SamplingControl control_;
  std::vector<std::size_t> order_;  // Ids, largest first.
  std::vector<double> p_;           // Along order_.
};

TEST(ReferenceChoose, AgreesWithASecondPipelineOnEveryOption) {
  Random random(33);
  const auto c = random_choose(random, 400, 120, 113);
  const auto tokens = run(reference(), c).at("token");
  for (std::size_t i = 0; i < c.rows.size(); ++i) {
    const auto row = c.logits.begin() + static_cast<std::ptrdiff_t>(i) * 120;
    EXPECT_EQ(tokens[i], static_cast<float>(Distribution(c.rows[i], {row, row + 113}).choose()))
        << "row " << i;
  }
}

}  // namespace
}  // namespace lily::cases
