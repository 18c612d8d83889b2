// Random arguments for every step: sizes, matrices, passes, states and the cases themselves.
#include "tests/backend/cases.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"

namespace lily::cases {
namespace {

std::size_t product(std::initializer_list<int> sizes) {
  std::size_t n = 1;
  for (const int size : sizes) n *= static_cast<std::size_t>(size);
  return n;
}

std::vector<float> norm_weights(Random& random, int n) {
  return random.floats(product({n}), 0.5f, 1.5f);
}

template <typename Case>
Case begin_case(const ModelSpec& spec, const PassControl& control) {
  Case c;
  c.spec = spec;
  c.control = control;
  return c;
}

template <typename F>
int largest_over(const PassControl& control, F&& of) {
  int largest = 0;
  for (int s = 0; s < control.n_segments; ++s)
    largest = std::max<int>(largest, of(control.segments[s]));
  return largest;
}

}  // namespace

float Random::uniform(float low, float high) {
  return low + (high - low) * uniform_draw(seed_, position_++);
}

int Random::below(int n) {
  return static_cast<int>(uniform_draw(seed_, position_++) * static_cast<float>(n));
}

std::vector<float> Random::floats(std::size_t n, float low, float high) {
  std::vector<float> out(n);
  for (float& x : out) x = uniform(low, high);
  return out;
}

ModelSpec pocket_spec() {
  ModelSpec spec;
  spec.n_layers = 8;
  for (int i = 0; i < 8; ++i)
    spec.layer_kinds.push_back(i % 4 == 3 ? LayerKind::kAttention : LayerKind::kDelta);
  spec.hidden = 256;
  spec.n_q_heads = 16;
  spec.n_kv_heads = 2;
  spec.n_key_heads = 4;
  spec.n_value_heads = 8;
  spec.n_experts = 16;
  spec.n_chosen = 4;
  spec.expert_width = spec.shared_width = 128;
  spec.vocab_rows = 4096;
  spec.max_context = 8192;
  return spec;
}

ModelSpec odd_spec() {
  ModelSpec spec = pocket_spec();
  spec.hidden = 192;
  spec.n_q_heads = 3;
  spec.n_kv_heads = 1;
  spec.n_key_heads = 1;
  spec.n_value_heads = 3;
  spec.n_experts = 11;
  spec.n_chosen = 3;
  spec.expert_width = 64;
  spec.shared_width = 192;
  spec.vocab_rows = 1003;
  spec.z_activation = ZActivation::kSigmoid;
  return spec;
}

double Matrix::at(int row, int col) const {
  const auto group =
      product({row, cols / kQuantGroup}) + static_cast<std::size_t>(col / kQuantGroup);
  const auto code = codes[product({row, cols}) + static_cast<std::size_t>(col)];
  return static_cast<double>(bf16_to_float(scales[group])) * code +
         static_cast<double>(bf16_to_float(biases[group]));
}

Matrix random_matrix(Random& random, int rows, int cols, int bits) {
  Matrix m{.rows = rows, .cols = cols, .bits = bits, .codes = {}, .scales = {}, .biases = {}};
  m.codes.resize(product({rows, cols}));
  for (auto& code : m.codes) code = static_cast<std::uint8_t>(random.below(1 << bits));
  const auto levels = static_cast<float>((1 << bits) - 1);
  const float range = 3.5f / std::sqrt(static_cast<float>(cols));
  for (std::size_t g = 0; g < product({rows, cols / kQuantGroup}); ++g) {
    const float sign = random.below(2) == 0 ? -1.0f : 1.0f;
    const float scale = sign * random.uniform(0.5f, 1.5f) * range / levels;
    m.scales.push_back(float_to_bf16(scale));
    m.biases.push_back(float_to_bf16(-scale * levels * random.uniform(0.45f, 0.55f)));
  }
  return m;
}

PassControl make_pass(const ModelSpec& spec, const std::vector<Piece>& pieces,
                      const std::vector<int>& head_rows, Random& random) {
  PassControl control{};
  for (const Piece& piece : pieces) {
    control.segments[control.n_segments++] = {.first_row = control.n_rows,
                                              .n_rows = piece.n_rows,
                                              .position = piece.position,
                                              .sequence = piece.sequence,
                                              .state_in = piece.state_in,
                                              .state_out = piece.state_out,
                                              .snapshots = piece.snapshots,
                                              .reserved = 0};
    control.n_rows += piece.n_rows;
  }
  for (int t = 0; t < control.n_rows; ++t) control.tokens[t] = random.below(spec.vocab_rows);
  for (const int row : head_rows) control.head_rows[control.n_head_rows++] = row;
  return control;
}

std::vector<std::vector<Piece>> typical_passes() {
  return {
      {{.n_rows = 1}},
      {{.n_rows = 37}},
      {{.n_rows = 1, .position = 130, .state_in = 0, .state_out = 0}},
      {{.n_rows = 5, .position = 61, .state_in = 0, .state_out = 1, .snapshots = 2}},
      {{.n_rows = 1, .position = 9, .sequence = 2, .state_in = 3, .state_out = 3},
       {.n_rows = 18, .position = 0, .sequence = 0, .state_in = -1, .state_out = 0},
       {.n_rows = 1, .position = 64, .sequence = 1, .state_in = 1, .state_out = 2},
       {.n_rows = 3,
        .position = 126,
        .sequence = 3,
        .state_in = 4,
        .state_out = 4,
        .snapshots = 5}},
  };
}

States random_states(Random& random, const ModelSpec& spec, const PassControl& control) {
  States states;
  states.n_slots = 1 + largest_over(control, [](const Segment& s) {
                     return std::max({s.state_in, s.state_out,
                                      s.snapshots < 0 ? 0 : s.snapshots + s.n_rows - 1});
                   });
  states.delta = random.floats(product({states.n_slots, spec.n_value_heads, kDeltaDim, kDeltaDim}),
                               -0.3f, 0.3f);
  states.conv = random.floats(product({states.n_slots, kConvTaps - 1, spec.conv_dim()}));
  return states;
}

Kv random_kv(Random& random, const ModelSpec& spec, const PassControl& control) {
  const int n_sequences = 1 + largest_over(control, [](const Segment& s) { return s.sequence; });
  const int end = largest_over(control, [](const Segment& s) { return s.position + s.n_rows; });
  Kv kv;
  kv.table_stride = (end + kKvPageTokens - 1) / kKvPageTokens;
  kv.n_pages = n_sequences * kv.table_stride + 1;  // One page belongs to nobody.
  kv.table.resize(product({n_sequences, kv.table_stride}));
  std::iota(kv.table.begin(), kv.table.end(), 1);
  for (auto i = static_cast<int>(kv.table.size()) - 1; i > 0; --i) {
    std::swap(kv.table[static_cast<std::size_t>(i)],
              kv.table[static_cast<std::size_t>(random.below(i + 1))]);
  }
  kv.pages = random.floats(product({kv.n_pages, spec.n_kv_heads, 2, kKvPageTokens, kHeadDim}));
  for (float& x : kv.pages) x = bf16_to_float(float_to_bf16(x));
  return kv;
}

std::size_t kv_offset(const ModelSpec& spec, const Kv& kv, int sequence, int position, int head,
                      int part) {
  const int page =
      kv.table[static_cast<std::size_t>(sequence * kv.table_stride + position / kKvPageTokens)];
  const int block = (page * spec.n_kv_heads + head) * 2 + part;
  return product({block * kKvPageTokens + position % kKvPageTokens, kHeadDim});
}

EmbedCase random_embed(Random& random, const ModelSpec& spec, const PassControl& control) {
  return {control, random_matrix(random, spec.vocab_rows, spec.hidden, 4)};
}

GdnProjectCase random_gdn_project(Random& random, const ModelSpec& spec,
                                  const PassControl& control) {
  auto c = begin_case<GdnProjectCase>(spec, control);
  c.h = random.floats(product({control.n_rows, spec.hidden}), -2.0f, 2.0f);
  c.norm = norm_weights(random, spec.hidden);
  c.in_qkv = random_matrix(random, spec.conv_dim(), spec.hidden, 4);
  c.in_z = random_matrix(random, spec.value_dim(), spec.hidden, 4);
  c.in_b = random_matrix(random, spec.n_value_heads, spec.hidden, 4);
  c.in_a = random_matrix(random, spec.n_value_heads, spec.hidden, 4);
  return c;
}

GdnPrepareCase random_gdn_prepare(Random& random, const ModelSpec& spec,
                                  const PassControl& control) {
  auto c = begin_case<GdnPrepareCase>(spec, control);
  c.qkv = random.floats(product({control.n_rows, spec.conv_dim()}), -2.0f, 2.0f);
  c.b = random.floats(product({control.n_rows, spec.n_value_heads}), -4.0f, 4.0f);
  c.a = random.floats(product({control.n_rows, spec.n_value_heads}), -4.0f, 4.0f);
  c.conv_weight = random.floats(product({spec.conv_dim(), kConvTaps}));
  c.a_log = random.floats(product({spec.n_value_heads}), -4.0f, 2.0f);
  c.dt_bias = random.floats(product({spec.n_value_heads}), -2.0f, 1.0f);
  c.states = random_states(random, spec, control);
  return c;
}

GdnScanCase random_gdn_scan(Random& random, const ModelSpec& spec, const PassControl& control) {
  auto c = begin_case<GdnScanCase>(spec, control);
  c.q = random.floats(product({control.n_rows, spec.key_dim()}), -0.15f, 0.15f);
  c.k = random.floats(product({control.n_rows, spec.key_dim()}), -0.15f, 0.15f);
  c.v = random.floats(product({control.n_rows, spec.value_dim()}));
  c.decay = random.floats(product({control.n_rows, spec.n_value_heads}), 0.3f, 1.0f);
  c.beta = random.floats(product({control.n_rows, spec.n_value_heads}), 0.0f, 1.0f);
  c.z = random.floats(product({control.n_rows, spec.value_dim()}), -3.0f, 3.0f);
  c.norm = norm_weights(random, kDeltaDim);
  c.states = random_states(random, spec, control);
  return c;
}

ProjectResidualCase random_project_residual(Random& random, const ModelSpec& spec,
                                            const PassControl& control) {
  ProjectResidualCase c;
  c.control = control;
  c.x = random.floats(product({control.n_rows, spec.value_dim()}), -2.0f, 2.0f);
  c.h = random.floats(product({control.n_rows, spec.hidden}), -2.0f, 2.0f);
  c.weight = random_matrix(random, spec.hidden, spec.value_dim(), 4);
  return c;
}

AttentionProjectCase random_attention_project(Random& random, const ModelSpec& spec,
                                              const PassControl& control) {
  auto c = begin_case<AttentionProjectCase>(spec, control);
  c.h = random.floats(product({control.n_rows, spec.hidden}), -2.0f, 2.0f);
  c.norm = norm_weights(random, spec.hidden);
  c.in_q = random_matrix(random, 2 * spec.q_dim(), spec.hidden, 4);
  c.in_k = random_matrix(random, spec.kv_dim(), spec.hidden, 4);
  c.in_v = random_matrix(random, spec.kv_dim(), spec.hidden, 4);
  return c;
}

AttentionPrepareCase random_attention_prepare(Random& random, const ModelSpec& spec,
                                              const PassControl& control) {
  auto c = begin_case<AttentionPrepareCase>(spec, control);
  c.q_gate = random.floats(product({control.n_rows, 2, spec.q_dim()}), -2.0f, 2.0f);
  c.k = random.floats(product({control.n_rows, spec.kv_dim()}), -2.0f, 2.0f);
  c.v = random.floats(product({control.n_rows, spec.kv_dim()}), -2.0f, 2.0f);
  c.q_norm = norm_weights(random, kHeadDim);
  c.k_norm = norm_weights(random, kHeadDim);
  c.kv = random_kv(random, spec, control);
  return c;
}

AttentionCase random_attention(Random& random, const ModelSpec& spec, const PassControl& control) {
  auto c = begin_case<AttentionCase>(spec, control);
  c.q = random.floats(product({control.n_rows, spec.q_dim()}), -0.4f, 0.4f);
  c.q_gate = random.floats(product({control.n_rows, 2, spec.q_dim()}), -3.0f, 3.0f);
  c.kv = random_kv(random, spec, control);
  return c;
}

RouteCase random_route(Random& random, const ModelSpec& spec, const PassControl& control) {
  auto c = begin_case<RouteCase>(spec, control);
  c.h = random.floats(product({control.n_rows, spec.hidden}), -2.0f, 2.0f);
  c.norm = norm_weights(random, spec.hidden);
  c.router = random_matrix(random, spec.n_experts, spec.hidden, 8);
  c.shared_gate = random_matrix(random, 1, spec.hidden, 8);
  return c;
}

namespace {

// [T, K] distinct experts a row, ascending.
std::vector<std::int32_t> random_experts(Random& random, const ModelSpec& spec, int n_rows) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(spec.n_experts)), out;
  std::iota(all.begin(), all.end(), 0);
  for (int t = 0; t < n_rows; ++t) {
    for (int i = 0; i < spec.n_chosen; ++i)
      std::swap(all[static_cast<std::size_t>(i)],
                all[static_cast<std::size_t>(i + random.below(spec.n_experts - i))]);
    std::sort(all.begin(), all.begin() + spec.n_chosen);
    out.insert(out.end(), all.begin(), all.begin() + spec.n_chosen);
  }
  return out;
}

}  // namespace

ExpertsUpCase random_experts_up(Random& random, const ModelSpec& spec, const PassControl& control) {
  auto c = begin_case<ExpertsUpCase>(spec, control);
  c.x = random.floats(product({control.n_rows, spec.hidden}), -2.0f, 2.0f);
  c.experts = random_experts(random, spec, control.n_rows);
  c.gate = random_matrix(random, spec.n_experts * spec.expert_width, spec.hidden, 4);
  c.up = random_matrix(random, spec.n_experts * spec.expert_width, spec.hidden, 4);
  c.shared_gate = random_matrix(random, spec.shared_width, spec.hidden, 4);
  c.shared_up = random_matrix(random, spec.shared_width, spec.hidden, 4);
  return c;
}

ExpertsDownCase random_experts_down(Random& random, const ModelSpec& spec,
                                    const PassControl& control) {
  auto c = begin_case<ExpertsDownCase>(spec, control);
  c.act = random.floats(product({control.n_rows, spec.n_chosen, spec.expert_width}));
  c.shared_act = random.floats(product({control.n_rows, spec.shared_width}));
  c.expert_weights = random.floats(product({control.n_rows, spec.n_chosen}), 0.0f, 0.6f);
  c.shared_weight = random.floats(product({control.n_rows}), 0.0f, 1.0f);
  c.h = random.floats(product({control.n_rows, spec.hidden}), -2.0f, 2.0f);
  c.experts = random_experts(random, spec, control.n_rows);
  c.down = random_matrix(random, spec.n_experts * spec.hidden, spec.expert_width, 4);
  c.shared_down = random_matrix(random, spec.hidden, spec.shared_width, 4);
  return c;
}

HeadCase random_head(Random& random, const ModelSpec& spec, const PassControl& control) {
  auto c = begin_case<HeadCase>(spec, control);
  c.h = random.floats(product({control.n_rows, spec.hidden}), -2.0f, 2.0f);
  c.norm = norm_weights(random, spec.hidden);
  c.lm_head = random_matrix(random, spec.vocab_rows, spec.hidden, 4);
  return c;
}

ScoreCase random_score(Random& random, int n_rows, int vocab_rows, int vocab_used) {
  ScoreCase c;
  c.n_rows = n_rows;
  c.vocab_rows = vocab_rows;
  c.vocab_used = vocab_used;
  c.n_top = random.below(kMaxTopLogProbs + 1);
  c.logits = random.floats(product({n_rows, vocab_rows}), -8.0f, 8.0f);
  for (int i = 0; i < n_rows; ++i) {
    c.targets.push_back(random.below(vocab_used + 1) - 1);
    const auto other = random.floats(static_cast<std::size_t>(vocab_used), -8.0f, 8.0f);
    double sum = 0.0;
    for (const double x : other) sum += std::exp(x);
    for (const double x : other)
      c.reference_log_probs.push_back(static_cast<float>(x - std::log(sum)));
  }
  return c;
}

namespace {

Sampling random_sampling(Random& random, int vocab_used) {
  Sampling s;
  const auto n = static_cast<std::size_t>(vocab_used);
  s.control.seed = static_cast<std::uint64_t>(random.below(1 << 20));
  s.control.draw = static_cast<std::uint64_t>(random.below(1 << 10));
  s.control.temperature = random.below(3) == 0 ? 0.0f : random.uniform(0.2f, 1.8f);
  if (random.below(2) == 0) s.control.top_p = random.uniform(0.3f, 1.0f);
  if (random.below(2) == 0) s.control.min_p = random.uniform(0.0f, 0.2f);
  if (random.below(2) == 0) s.control.top_k = 1 + random.below(40);
  if (random.below(2) == 0) s.control.repetition_penalty = random.uniform(0.8f, 1.5f);
  if (random.below(2) == 0) s.control.presence_penalty = random.uniform(-2.0f, 2.0f);
  if (random.below(2) == 0) s.control.frequency_penalty = random.uniform(-1.0f, 1.0f);
  s.control.n_top = random.below(kMaxTopLogProbs + 1);
  for (std::size_t i = 0; i < n; ++i) {
    s.generated.push_back(random.below(4) == 0 ? random.below(4) : 0);
    s.in_prompt.push_back(random.below(4) == 0);
  }
  for (int i = random.below(6); i > 0; --i)
    s.bias.emplace_back(random.below(vocab_used), random.uniform(-5.0f, 5.0f));
  if (random.below(3) == 0) s.allowed.assign((n + 31) / 32, 0x5a5a1234u);
  return s;
}

}  // namespace

ChooseCase random_choose(Random& random, int n_rows, int vocab_rows, int vocab_used) {
  ChooseCase c{.vocab_rows = vocab_rows, .vocab_used = vocab_used, .logits = {}, .rows = {}};
  c.logits = random.floats(product({n_rows, vocab_rows}), -6.0f, 6.0f);
  for (int i = 0; i < n_rows; ++i) c.rows.push_back(random_sampling(random, vocab_used));
  return c;
}

double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double error = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double a = got[i], b = want[i];
    error += (a - b) * (a - b);
    norm += b * b;
  }
  if (error == 0.0) return 0.0;
  const double ratio = std::sqrt(error / norm);
  return std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
}

double largest_error(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double largest = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::fabs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    largest =
        std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(largest, error);
  }
  return largest;
}

}  // namespace lily::cases
