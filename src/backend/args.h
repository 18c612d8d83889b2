// What the steps of a pass are told: one struct a step, pointers first. Plain C++14 with fixed-width members, so that a
// kernel compiled for a device reads the same bytes. Whatever changes from pass to pass (tokens, positions, slots, lengths) lives in
// PassControl; everything else is fixed when a pass is recorded. A pointer is an address in the backend's memory.
// Shapes use the letters of spec/model_spec.h. f32 is float, bf16 a uint16_t.
#pragma once

#include <cstdint>

namespace lily {

constexpr int kMaxPassRows = 2048;
constexpr int kMaxSegments = 64;
constexpr int kKvPageTokens = 64;   // Positions in a page of the KV cache.
constexpr int kHeadBlockRows = 32;  // Rows of logits that exist at a time.
constexpr int kMaxTopLogProbs = 20;

// Consecutive tokens of one sequence. One long segment is prefill, one row is decode, a few rows verify drafts, many
// segments are several sequences in one pass.
struct Segment {
  std::int32_t first_row;  // Row of its first token in the pass.
  std::int32_t n_rows;
  std::int32_t position;   // Position of its first token = tokens cached before it.
  std::int32_t sequence;   // Row of the page table.
  std::int32_t state_in;   // Slot of the state pool read at its start; -1: all zero, a new sequence.
  std::int32_t state_out;  // Slot written after its last row; may equal state_in.
  std::int32_t snapshots;  // First of n_rows slots, one written after each row; -1: none.
  std::int32_t reserved;
};

// Everything that changes from pass to pass.
struct PassControl {
  std::int32_t n_rows;       // T, at most kMaxPassRows
  std::int32_t n_segments;   // at most kMaxSegments
  std::int32_t n_head_rows;  // rows whose logits are wanted
  std::int32_t reserved;
  Segment segments[kMaxSegments];
  std::int32_t tokens[kMaxPassRows];     // Input token of each row.
  std::int32_t head_rows[kMaxPassRows];  // Which rows, any order.
};

// A quantised matrix in the layout that the backend asked for (spec/layout.h); y [T, rows] = x [T, cols] W^T.
struct QuantMatrix {
  const void* codes;
  const std::uint16_t* scales;  // kRowMajor only, else null
  const std::uint16_t* biases;
  std::int32_t rows, cols, bits;
  std::uint32_t layout;         // WeightLayout
};

// The KV cache of one attention layer: page p holds, for each KV head, kKvPageTokens keys then as many values:
// [pages, Hkv, 2, kKvPageTokens, 256], bf16 (f32 where BackendInfo says so). Keys are normed and turned; where they lie
// within their part of the page is the backend's KeyLayout.
struct KvLayer {
  void* pages;
  const std::int32_t* page_table;  // [sequences, table_stride]: page of positions 64 i .. 64 i + 63
  std::int32_t table_stride;
  std::int32_t n_kv_heads;
};

// The recurrent state of one delta layer inside the state pool: slot s is at base + s * slot_bytes.
//   delta  f32 [Hv, 128 (key), 128 (value)] at delta_offset
//   conv   f32 [3, conv_dim] at conv_offset: the last three rows before convolution and SiLU, oldest first
struct StateLayer {
  unsigned char* base;
  std::int64_t slot_bytes, delta_offset, conv_offset;
};

// h [T, D] f32 = dequantised row of the table for each token.
struct EmbedArgs {
  const PassControl* control;
  QuantMatrix table;  // [V, D]
  float* h;
};

// x = rmsnorm(h; norm); qkv, z, b, a = the four projections of a delta layer. Norm weights are multiplied as stored.
struct GdnProjectArgs {
  const PassControl* control;
  const float* h;     // [T, D]
  const float* norm;  // [D]
  QuantMatrix in_qkv, in_z, in_b, in_a;
  float* qkv;  // [T, conv_dim] before convolution: q [Hk,128], k [Hk,128], v [Hv,128]
  float* z;    // [T, Hv * 128]
  float* b;    // [T, Hv]
  float* a;    // [T, Hv]
  float eps;
};

// Causal convolution over the segment and its window, SiLU, then q and k each divided by sqrt(mean(x^2) + eps) over
// the head; q times 1/128, k times 128^-0.5. beta = sigmoid(b); decay = exp(-exp(A_log) * softplus(a + dt_bias)).
// Writes the new window to state_out (and a window a row to the snapshots).
struct GdnPrepareArgs {
  const PassControl* control;
  const float* qkv;          // [T, conv_dim]
  const float* b;            // [T, Hv]
  const float* a;            // [T, Hv]
  const float* conv_weight;  // [conv_dim, 4], tap 3 meets the current token
  const float* a_log;        // [Hv]
  const float* dt_bias;      // [Hv]
  StateLayer state;
  float* q;      // [T, Hk, 128]
  float* k;      // [T, Hk, 128]
  float* v;      // [T, Hv, 128]
  float* decay;  // [T, Hv]
  float* beta;   // [T, Hv]
  std::int32_t n_key_heads, n_value_heads;
  float eps;
};

// Per value head v with key head v / (Hv / Hk), token after token, S [128 (key), 128 (value)]:
//   S <- decay S;  d = beta (v - k S);  S <- S + k^T d;  o = q S
// y = rmsnorm(o; norm, over the head) * act(z), act as z_sigmoid says (0: SiLU).
struct GdnScanArgs {
  const PassControl* control;
  const float* q;
  const float* k;
  const float* v;
  const float* decay;
  const float* beta;
  const float* z;     // [T, Hv, 128]
  const float* norm;  // [128]
  StateLayer state;
  float* y;           // [T, Hv * 128]
  std::int32_t n_key_heads, n_value_heads;
  std::int32_t z_sigmoid;
  float eps;
};

// h [T, D] += x [T, cols] W^T.
struct ProjectResidualArgs {
  const PassControl* control;
  const float* x;
  QuantMatrix weight;
  float* h;
};

// x = rmsnorm(h; norm); q with its gate, k and v of an attention layer.
struct AttentionProjectArgs {
  const PassControl* control;
  const float* h;     // [T, D]
  const float* norm;  // [D]
  QuantMatrix in_q, in_k, in_v;
  float* q_gate;  // [T, Hq, 2, 256]: per head the query, then its gate
  float* k;       // [T, Hkv, 256]
  float* v;       // [T, Hkv, 256]
  float eps;
};

// Norms q and k per head, turns their first 64 dims by the row's position, appends k and v to the pages.
struct AttentionPrepareArgs {
  const PassControl* control;
  const float* q_gate;             // [T, Hq, 2, 256]
  const float* k;                  // [T, Hkv, 256]
  const float* v;                  // [T, Hkv, 256]
  const float* q_norm;             // [256]
  const float* k_norm;             // [256]
  const double* rope_frequencies;  // [32] radians per position
  KvLayer kv;
  float* q;  // [T, Hq, 256], turned, times 1/16
  std::int32_t n_q_heads;
  float rope_magnitude;
  float eps;
};

// y = softmax(q K^T) V * sigmoid(gate) over positions 0 .. the row's own, in spans of whole pages that are merged in order:
// how a row's sums are split depends on positions alone.
struct AttentionArgs {
  const PassControl* control;
  const float* q;       // [T, Hq, 256]
  const float* q_gate;  // [T, Hq, 2, 256], the gate half is read
  KvLayer kv;
  float* y;  // [T, Hq * 256]
  std::int32_t n_q_heads;
};

// x = rmsnorm(h; norm); softmax over the E router logits in f32; the K largest (ties: lower id) divided by their sum,
// listed by ascending id, so that every path adds experts in one order;
// shared = sigmoid of the shared expert's gate.
struct RouteArgs {
  const PassControl* control;
  const float* h;     // [T, D]
  const float* norm;  // [D]
  QuantMatrix router;       // [E, D]
  QuantMatrix shared_gate;  // [1, D]
  float* x;                // [T, D]
  std::int32_t* experts;   // [T, K]
  float* expert_weights;   // [T, K]
  float* shared_weight;    // [T]
  std::int32_t n_chosen;
  float eps;
};

// act = silu(x gate^T) * (x up^T) of each chosen expert and of the shared one.
struct ExpertsUpArgs {
  const PassControl* control;
  const float* x;                // [T, D]
  const std::int32_t* experts;   // [T, K]
  QuantMatrix gate, up;                // [E * F, D], expert after expert
  QuantMatrix shared_gate, shared_up;  // [Fs, D]
  float* act;         // [T, K, F]
  float* shared_act;  // [T, Fs]
  std::int32_t n_experts, n_chosen;
};

// h += sum over the chosen of weight * (act down^T), in the order of `experts`, then shared_weight * shared.
struct ExpertsDownArgs {
  const PassControl* control;
  const float* act;              // [T, K, F]
  const float* shared_act;       // [T, Fs]
  const std::int32_t* experts;   // [T, K]
  const float* expert_weights;   // [T, K]
  const float* shared_weight;    // [T]
  QuantMatrix down;         // [E * D, F]
  QuantMatrix shared_down;  // [D, Fs]
  float* h;  // [T, D]
  std::int32_t n_experts, n_chosen;
};

// Rows head_rows[first .. first + n) with n = min(kHeadBlockRows, n_head_rows - first):
// state = rmsnorm(h; norm); logits = state lm_head^T, the first vocab_used of each row valid.
struct HeadArgs {
  const PassControl* control;
  const float* h;     // [T, D]
  const float* norm;  // [D]
  QuantMatrix lm_head;  // [V, D]
  float* logits;        // [kHeadBlockRows, V]
  float* states;        // null, or [n_head_rows, D]: the final-norm states are kept for a draft head
  std::int32_t first;
  float eps;
};

// Of the logits of the same rows: log-probability of a target, the largest, KL divergence from given rows.
// Natural logarithms over the first vocab_used entries.
struct ScoreArgs {
  const PassControl* control;
  const float* logits;                // [kHeadBlockRows, V]
  const std::int32_t* targets;        // [n_head_rows]; -1: none. May be null.
  const float* reference_log_probs;   // null, or [n_head_rows, vocab_used]: p; KL(p || ours) is wanted
  float* target_log_prob;             // [n_head_rows]
  std::int32_t* top_ids;              // [n_head_rows, n_top]; ties: lower id first
  float* top_log_probs;               // [n_head_rows, n_top]
  float* kl;                          // [n_head_rows]; written where reference_log_probs is given
  std::int32_t* not_finite;           // [n_head_rows]: 1 where a logit is NaN or infinite
  std::int32_t first;
  std::int32_t n_top;                 // 0 .. kMaxTopLogProbs
  std::int32_t vocab_rows, vocab_used;
};

// How one request draws its next token. Order of operations (docs/SAMPLING.md): mask, bias, repetition, frequency and
// presence penalties; greedy: the largest (ties: lower id); else temperature, top-k, top-p, min-p, one draw.
struct SamplingControl {
  std::int32_t* generated;           // [vocab_used] times generated so far; choose adds its token
  const std::uint8_t* in_prompt;     // [vocab_used] 1 where the prompt holds the token
  const std::int32_t* bias_ids;      // [n_bias]
  const float* bias_values;          // [n_bias]
  const std::uint32_t* allowed;      // null, or a bit per token: a grammar's mask
  std::uint64_t seed, draw;          // The draw is a function of (seed, draw) alone; draw = index in the answer.
  float temperature;                 // 0: greedy
  float top_p, min_p;                // 1 and 0: off
  float repetition_penalty, presence_penalty, frequency_penalty;  // 1, 0, 0: off
  std::int32_t top_k;                // 0: off
  std::int32_t n_bias;
  std::int32_t n_top;                // Alternatives reported, 0 .. kMaxTopLogProbs
};

// What choose reports of one row. Log-probabilities are the model's own: before mask, bias, penalties and temperature.
struct ChosenToken {
  std::int32_t token;       // -1 when a logit is not finite
  std::int32_t not_finite;
  float log_prob;
  std::int32_t n_top;
  std::int32_t top_ids[kMaxTopLogProbs];
  float top_log_probs[kMaxTopLogProbs];
};

// Chooses for head rows first .. first + n, row i by controls[i].
struct ChooseArgs {
  const PassControl* control;
  const float* logits;                // [kHeadBlockRows, V]
  SamplingControl* const* controls;   // [n_head_rows]
  ChosenToken* chosen;                // [n_head_rows]
  std::int32_t* next_tokens;          // null, or where the next pass reads its tokens (PassControl::tokens)
  std::int32_t first;
  std::int32_t vocab_rows, vocab_used;
};

// No step of the model: memory read and folded into words, which shows what reading alone costs (src/measure). A matrix is read
// as a product of one row reads it; else `bytes`, a multiple of 16, from end to end. Nothing to read: one word is written, which shows
// what a launch costs. The exclusive or of the words written is that of all words that were read.
constexpr std::int64_t kFoldWords = 65536;  // More than the groups of any matrix of the family.
struct FoldArgs {
  QuantMatrix matrix;   // rows 0: none
  const void* from;
  std::int64_t bytes;   // At most kFoldWords * 64 KiB.
  std::uint32_t* sink;  // [kFoldWords], of which the first so many are written as there are groups
};

// bytes from one address to another, in order with the steps around it: snapshots and forks of states.
struct CopyArgs {
  const void* from;
  void* to;
  std::int64_t bytes;
};

}  // namespace lily
