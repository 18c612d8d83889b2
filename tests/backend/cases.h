// Random arguments for every step, on the host, and run(): the step on any backend, its results
// back on the host. Two backends are compared by running the same case on both. A case holds plain
// numbers, so a test can also work them out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backend/ops.h"
#include "base/bf16.h"
#include "spec/layout.h"
#include "spec/model_spec.h"

namespace lily::cases {

// Numbers that depend on the seed alone.
class Random {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed) {}
  float uniform(float low, float high);
  int below(int n);  // 0 .. n - 1
  std::vector<float> floats(std::size_t n, float low = -1.0f, float high = 1.0f);

 private:
  std::uint64_t seed_, position_ = 0;
};

// Sizes: the pocket checkpoint's, and odd ones (rows that fill no block, one KV head, three value
// heads a key head).
ModelSpec pocket_spec();
ModelSpec odd_spec();

struct Matrix {
  int rows = 0, cols = 0, bits = 4;
  std::vector<std::uint8_t> codes;    // [rows, cols], one code a byte
  std::vector<Bf16> scales, biases;   // [rows, cols / 64]
  double at(int row, int col) const;  // The exact weight.
};
Matrix random_matrix(Random& random, int rows, int cols,
                     int bits);  // Entries of about 1 / sqrt(cols).
std::vector<std::byte> pack(const Matrix& matrix, WeightLayout layout);

// One segment of a pass. Rows follow each other in the order of the pieces.
struct Piece {
  int n_rows = 1, position = 0, sequence = 0, state_in = -1, state_out = 0, snapshots = -1;
};
// Tokens are random; head_rows as given.
PassControl make_pass(const ModelSpec& spec, const std::vector<Piece>& pieces,
                      const std::vector<int>& head_rows, Random& random);
// Passes that between them show every kind of segment: new and continued, one row and many, several
// at once, snapshots.
std::vector<std::vector<Piece>> typical_passes();

// State slots of one delta layer: delta [n_slots, Hv, 128, 128], conv [n_slots, 3, conv_dim].
struct States {
  int n_slots = 0;
  std::vector<float> delta, conv;
};
// The cache of one attention layer: pages [n_pages, Hkv, 2, 64, 256], values that bf16 holds
// exactly.
struct Kv {
  int n_pages = 0, table_stride = 0;
  std::vector<std::int32_t> table;  // [sequences, table_stride], pages in no order
  std::vector<float> pages;
};
States random_states(Random& random, const ModelSpec& spec, const PassControl& control);
Kv random_kv(Random& random, const ModelSpec& spec, const PassControl& control);
// Offset of a position's key (part 0) or value (1) in Kv::pages, for both of a case and of run()'s
// "kv".
std::size_t kv_offset(const ModelSpec& spec, const Kv& kv, int sequence, int position, int head,
                      int part);

// One struct a step; members are named and shaped as in backend/args.h.
struct EmbedCase {
  PassControl control{};
  Matrix table;
};
struct GdnProjectCase {
  ModelSpec spec;
  PassControl control{};
  std::vector<float> h, norm;
  Matrix in_qkv, in_z, in_b, in_a;
};
struct GdnPrepareCase {
  ModelSpec spec;
  PassControl control{};
  std::vector<float> qkv, b, a, conv_weight, a_log, dt_bias;
  States states;
};
struct GdnScanCase {
  ModelSpec spec;
  PassControl control{};
  std::vector<float> q, k, v, decay, beta, z, norm;
  States states;
};
struct ProjectResidualCase {
  PassControl control{};
  std::vector<float> x, h;
  Matrix weight;
};
struct AttentionProjectCase {
  ModelSpec spec;
  PassControl control{};
  std::vector<float> h, norm;
  Matrix in_q, in_k, in_v;
};
struct AttentionPrepareCase {
  ModelSpec spec;
  PassControl control{};
  std::vector<float> q_gate, k, v, q_norm, k_norm;
  Kv kv;
};
struct AttentionCase {
  ModelSpec spec;
  PassControl control{};
  std::vector<float> q, q_gate;
  Kv kv;
};
struct RouteCase {
  ModelSpec spec;
  PassControl control{};
  std::vector<float> h, norm;
  Matrix router, shared_gate;
};
struct ExpertsUpCase {
  ModelSpec spec;
  PassControl control{};
  std::vector<float> x;
  std::vector<std::int32_t> experts;
  Matrix gate, up, shared_gate, shared_up;
};
struct ExpertsDownCase {
  ModelSpec spec;
  PassControl control{};
  std::vector<float> act, shared_act, expert_weights, shared_weight, h;
  std::vector<std::int32_t> experts;
  Matrix down, shared_down;
};
struct HeadCase {
  ModelSpec spec;
  PassControl control{};
  std::vector<float> h, norm;
  Matrix lm_head;
};
struct ScoreCase {
  int n_rows = 0, vocab_rows = 0, vocab_used = 0, n_top = 0;
  std::vector<float> logits;               // [n_rows, vocab_rows]
  std::vector<std::int32_t> targets;       // [n_rows], or empty: null
  std::vector<float> reference_log_probs;  // [n_rows, vocab_used], or empty: null
};
// Greedy, every option off, no pointers.
inline SamplingControl sampling_off() {
  SamplingControl control{};
  control.top_p = control.repetition_penalty = 1.0f;
  return control;
}
// One row's SamplingControl with the buffers it points to.
struct Sampling {
  SamplingControl control = sampling_off();  // Pointers are set by run().
  std::vector<std::int32_t> generated;       // [vocab_used]
  std::vector<std::uint8_t> in_prompt;       // [vocab_used]
  std::vector<std::pair<std::int32_t, float>> bias;
  std::vector<std::uint32_t> allowed;  // Empty: null.
};
struct ChooseCase {
  int vocab_rows = 0, vocab_used = 0;
  std::vector<float> logits;  // [rows.size(), vocab_rows]
  std::vector<Sampling> rows;
};

EmbedCase random_embed(Random& random, const ModelSpec& spec, const PassControl& control);
GdnProjectCase random_gdn_project(Random& random, const ModelSpec& spec,
                                  const PassControl& control);
GdnPrepareCase random_gdn_prepare(Random& random, const ModelSpec& spec,
                                  const PassControl& control);
GdnScanCase random_gdn_scan(Random& random, const ModelSpec& spec, const PassControl& control);
ProjectResidualCase random_project_residual(Random& random, const ModelSpec& spec,
                                            const PassControl& control);
AttentionProjectCase random_attention_project(Random& random, const ModelSpec& spec,
                                              const PassControl& control);
AttentionPrepareCase random_attention_prepare(Random& random, const ModelSpec& spec,
                                              const PassControl& control);
AttentionCase random_attention(Random& random, const ModelSpec& spec, const PassControl& control);
RouteCase random_route(Random& random, const ModelSpec& spec, const PassControl& control);
ExpertsUpCase random_experts_up(Random& random, const ModelSpec& spec, const PassControl& control);
ExpertsDownCase random_experts_down(Random& random, const ModelSpec& spec,
                                    const PassControl& control);
HeadCase random_head(Random& random, const ModelSpec& spec, const PassControl& control);
ScoreCase random_score(Random& random, int n_rows, int vocab_rows, int vocab_used);
// Every option of sampling drawn at random; one row in three is greedy.
ChooseCase random_choose(Random& random, int n_rows, int vocab_rows, int vocab_used);

// The buffers that a step writes, by the names of backend/args.h, integers as floats. "delta" and
// "conv" are the whole pool afterwards, "kv" all pages, "logits" [n_head_rows, V] and "states"
// [n_head_rows, D]. Entries that no one wrote hold kUntouched.
using Outputs = std::map<std::string, std::vector<float>>;
inline constexpr float kUntouched = -12345.0f;

// Passes are recorded for so many rows more than they have.
inline int spare_rows = 0;

// The backend has been prepare()d for the case's spec and rows.
Outputs run(Backend& backend, const EmbedCase& c);
Outputs run(Backend& backend, const GdnProjectCase& c);
Outputs run(Backend& backend, const GdnPrepareCase& c);
Outputs run(Backend& backend, const GdnScanCase& c);
Outputs run(Backend& backend, const ProjectResidualCase& c);
Outputs run(Backend& backend, const AttentionProjectCase& c);
Outputs run(Backend& backend, const AttentionPrepareCase& c);
Outputs run(Backend& backend, const AttentionCase& c);
Outputs run(Backend& backend, const RouteCase& c);
Outputs run(Backend& backend, const ExpertsUpCase& c);
Outputs run(Backend& backend, const ExpertsDownCase& c);
Outputs run(Backend& backend, const HeadCase& c);
Outputs run(Backend& backend, const ScoreCase& c);
Outputs run(Backend& backend, const ChooseCase& c);

// attention_prepare and the attention that follows it in one pass, which a backend may join: "y"
// and "kv".
Outputs run_both(Backend& backend, const AttentionPrepareCase& c);
// head and the choose that follows it in one pass, which a backend may join: what run() of a
// ChooseCase gives, and "logits". At most kHeadBlockRows rows.
Outputs run_both(Backend& backend, const HeadCase& c, const std::vector<Sampling>& rows,
                 int vocab_used);

// |got - want| / |want| in the Euclidean norm, and the largest |got - want|. Infinite where sizes
// differ or one is NaN.
double relative_error(const std::vector<float>& got, const std::vector<float>& want);
double largest_error(const std::vector<float>& got, const std::vector<float>& want);

}  // namespace lily::cases
