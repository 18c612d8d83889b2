// What the kernels of delta layers, attention and the vocabulary are told: one struct a task, so
// that a step's file knows where things lie and a kernel only runs over them. Strides are in floats
// unless they say bytes.
#pragma once

#include <cstdint>

namespace lily::cpu {

// Positions that one softmax runs over before its result is merged with the ones before: four pages
// of the cache.
inline constexpr int kAttentionSpan = 256;
inline constexpr int kPagesPerSpan = 4;
inline constexpr int kLanes = 16;

// Causal convolution and SiLU over 128 channels (a head) of consecutive rows, then a norm for
// queries and keys.
struct ConvTask {
  const float* before;  // [3, 128] rows before the first, before_stride apart
  std::int64_t before_stride;
  const float* in;  // [n_rows, 128], in_stride apart
  std::int64_t in_stride;
  std::int64_t n_rows;
  const float* weight;  // [128, 4]
  float* out;           // [n_rows, 128], out_stride apart
  std::int64_t out_stride;
  float scale;  // out = scale * x / sqrt(mean(x^2) + eps); 0: x itself
  float eps;
};

// Gates of one row: beta = sigmoid(b), decay = exp(-exp(a_log) * softplus(a + dt_bias)).
struct GateTask {
  const float* a;
  const float* b;
  const float* a_log;
  const float* dt_bias;
  float* decay;
  float* beta;
  std::int64_t n_heads;
};

// The delta rule of one value head over consecutive rows, for some of its 128 value columns. State
// rows (keys) are 128 floats apart.
struct ScanTask {
  const float* q;  // [n_rows, 128], key_stride apart
  const float* k;
  std::int64_t key_stride;
  const float* v;  // at the first column, value_stride apart
  float* o;        // as v
  std::int64_t value_stride;
  const float* decay;  // [n_rows], gate_stride apart
  const float* beta;
  std::int64_t gate_stride;
  std::int64_t n_rows;
  const float* state_in;     // [128, 128] at the first column; null: zeros
  float* state_out;          // may be state_in
  unsigned char* snapshots;  // null, or where the state after row 0 goes; slot_bytes apart
  std::int64_t slot_bytes;
  float* scratch;  // [128, n_scan_columns]; scan_columns only
};

struct GdnKernels {
  void (*convolve)(const ConvTask&);
  void (*gates)(const GateTask&);
  // n_scan_columns columns, a multiple of 16 that divides 128; their state is held in scratch (8
  // KiB for 16, first-level cache) from the first row to the last.
  std::int64_t n_scan_columns;
  void (*scan_columns)(const ScanTask&);
  // All 128 columns, the state read and written in one contiguous sweep a row: for a few rows,
  // where reading it is the cost.
  void (*scan_rows)(const ScanTask&);
  // y [128] = y / rms(y) * norm * act(z)
  void (*gated_norm)(float* y, const float* norm, const float* z, bool z_sigmoid, float eps);
};

// Queries of one KV head in consecutive rows against one span of positions.
struct SpanTask {
  const float* q;  // [n_rows, group, 256]; rows q_stride apart
  std::int64_t q_stride;
  int n_rows, group;
  std::int64_t first_position;  // Of row 0, counted from the start of the span; may be negative or
                                // past its end.
  const std::uint16_t*
      keys[kPagesPerSpan];  // [4, 128, 16, 2] bf16; null past the last row's position
  const std::uint16_t* values[kPagesPerSpan];  // [64, 256] bf16
  const std::uint16_t*
      next_keys[kPagesPerSpan];  // Of the span that this thread takes next, or null
  float* scores;                 // [n_rows * group, kAttentionSpan] scratch
  float* mix;  // [n_rows * group, 256]: sum of exp(score - largest) * value; rows before the span
               // are left alone
  float* largest;  // [n_rows * group]
  float* total;    // [n_rows * group]: sum of exp(score - largest)
};

// A softmax over some positions, not yet divided.
struct Partial {
  float* mix;  // [256]
  float* largest;
  float* total;
};

struct AttentionKernels {
  // y [256] = scale * rope(rmsnorm(x; norm)); cosines and sines [32] already times YaRN's
  // magnitude.
  void (*norm_and_turn)(const float* x, const float* norm, const float* cosines, const float* sines,
                        float scale, float eps, float* y);
  void (*attend)(const SpanTask&);
  // into covers the positions before those of next, and then both.
  void (*merge)(const Partial& into, const Partial& next);
  // y [256] = mix / total * sigmoid(gate)
  void (*finish)(const float* mix, float total, const float* gate, float* y);
};

// Entries of a row of logits that a sum in f32 runs over before it is added to others in f64.
inline constexpr int kVocabularyChunk = 2048;

// What one chunk of logits says. `sum` adds exp(x - largest) in 16 lanes, then the tree.
struct ChunkStats {
  float largest;
  float sum;
  std::int32_t at;      // First place of the largest, counted from the chunk's begin.
  std::int32_t finite;  // 1: no NaN and no infinity
};

// Which logits to collect: low <= x < high. Ids count from first_id.
struct CollectTask {
  const float* x;
  std::int64_t n;
  float low, high;
  std::int32_t first_id;
  std::uint64_t* keys;  // Room for n
};

// A key sorts logits in descending order and equal ones by ascending id. -0 counts as 0.
struct VocabularyKernels {
  ChunkStats (*stats)(const float* x, std::int64_t n);
  // Appends the keys of the task's entries by ascending id; returns how many.
  std::int64_t (*collect)(const CollectTask&);
  // y [n] = exp((x - largest) / temperature); returns their sum, as in ChunkStats. y may be null.
  float (*weights)(const float* x, std::int64_t n, float largest, float temperature, float* y);
};

}  // namespace lily::cpu
