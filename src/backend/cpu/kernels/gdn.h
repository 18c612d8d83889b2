// Delta layers: convolution, gates, the delta rule and its gated norm. A head is kDeltaDim = 128
// wide.
#pragma once

#include "backend/cpu/kernels/math.h"
#include "backend/cpu/vector_kernels.h"
#include "spec/model_spec.h"

namespace lily::cpu::LILY_ISA {

constexpr int kDim = kDeltaDim;
static_assert(kConvTaps == 4, "load_streams separates four taps");

// taps [4][128] from weight [128][4]
inline void separate_taps(const float* weight, float (&taps)[kConvTaps][kDim]) {
  for (int c = 0; c < kDim; c += kLanes) {
    F16 w[kConvTaps];
    load_streams(weight + kConvTaps * c, w);
    for (int j = 0; j < kConvTaps; ++j) store(taps[j] + c, w[j]);
  }
}

// y = silu(w0 x0 + w1 x1 + w2 x2 + w3 x3), taps in this order: a product, then three fma.
inline void convolve_row(const float (&taps)[kConvTaps][kDim], const float* const (&x)[kConvTaps],
                         float* y) {
  for (int c = 0; c < kDim; c += kLanes) {
    F16 sum = mul(load(taps[0] + c), load(x[0] + c));
    for (int j = 1; j < kConvTaps; ++j) sum = fma(load(taps[j] + c), load(x[j] + c), sum);
    store(y + c, silu(sum));
  }
}

inline void scale_row(float* y, float factor) {
  const F16 f = broadcast(factor);
  for (int c = 0; c < kDim; c += kLanes) store(y + c, mul(load(y + c), f));
}

inline void convolve(const ConvTask& t) {
  float taps[kConvTaps][kDim];
  separate_taps(t.weight, taps);
  const float* x[kConvTaps] = {t.before, t.before + t.before_stride, t.before + 2 * t.before_stride,
                               t.in};
  for (std::int64_t row = 0; row < t.n_rows; ++row) {
    x[3] = t.in + row * t.in_stride;
    float* const y = t.out + row * t.out_stride;
    convolve_row(taps, x, y);
    if (t.scale != 0.0f) scale_row(y, inverse_rms(y, kDim, t.eps) * t.scale);
    x[0] = x[1];
    x[1] = x[2];
    x[2] = x[3];
  }
}

LILY_INLINE F16 decay_of(F16 a, F16 a_log, F16 dt_bias) {
  const F16 rate = mul(exp(a_log), softplus(add(a, dt_bias)));
  return exp(sub(zero(), rate));
}

inline void gates(const GateTask& t) {
  map(t.b, t.beta, t.n_heads, [](F16 b) { return sigmoid(b); });
  std::int64_t h = 0;
  for (; h + kLanes <= t.n_heads; h += kLanes) {
    store(t.decay + h, decay_of(load(t.a + h), load(t.a_log + h), load(t.dt_bias + h)));
  }
  const int tail = static_cast<int>(t.n_heads - h);
  if (tail == 0) return;
  store_n(t.decay + h,
          decay_of(load_n(t.a + h, tail), load_n(t.a_log + h, tail), load_n(t.dt_bias + h, tail)),
          tail);
}

// The delta rule, per value column c and in the order of keys i = 0 .. 127, one accumulator each:
//   m = decay * sum_i k_i S_ic       d = beta (v - m)
//   S_ic = fma(k_i, d, decay * S_ic)  o = sum_i q_i S_ic
// The decay is taken out of the first sum, so a token needs one sweep that updates S and one that
// reads it; the read of the next token rides on the update of this one. Value columns lie in the
// lanes: nothing is summed across lanes. Source: docs/MODEL.md, "Delta rule".
LILY_INLINE F16 delta_of(F16 v, float decay, float beta, F16 read) {
  return mul(broadcast(beta), sub(v, mul(broadcast(decay), read)));
}

// Vectors of value columns that scan_columns goes over at a time. A sum over keys waits for the one
// before, so that one vector of a single register leaves the units for fma idle: microseconds a row
// and head of an EPYC Turin with 1 / 2 / 4 vectors: 1.05 / 0.72 / 0.65 with AVX-512; AVX2, whose
// vector is two registers, 1.03 with one, 95 % of what its fma does.
constexpr int kScanVectors = kManyRegisters ? 4 : 1;
constexpr int kScanColumns = kScanVectors * kLanes;
struct Columns {
  F16 v[kScanVectors];
};

LILY_INLINE Columns no_columns() {
  Columns c;
  for (F16& v : c.v) v = zero();
  return c;
}

LILY_INLINE Columns read_columns(const ScanTask& t) {
  Columns read = no_columns();
  for (int i = 0; i < kDim; ++i) {
    const F16 k = broadcast(t.k[i]);
    for (int c = 0; c < kScanVectors; ++c) {
      const F16 s = t.state_in == nullptr ? zero() : load(t.state_in + i * kDim + c * kLanes);
      store(t.scratch + i * kScanColumns + c * kLanes, s);
      read.v[c] = fma(k, s, read.v[c]);
    }
  }
  return read;
}

// Updates S in scratch by row `row`, writing it to `to` (rows `to_stride` apart), and returns the
// next row's read.
template <bool kMore>
LILY_INLINE Columns update_columns(const ScanTask& t, std::int64_t row, const Columns& read,
                                   float* to, int to_stride) {
  const float* const k = t.k + row * t.key_stride;
  const float* const q = t.q + row * t.key_stride;
  const float* const k_next = kMore ? k + t.key_stride : k;
  const float decay = t.decay[row * t.gate_stride], beta = t.beta[row * t.gate_stride];
  const F16 keep = broadcast(decay);
  const float* const v = t.v + row * t.value_stride;
  Columns delta, out = no_columns(), next = no_columns();
  for (int c = 0; c < kScanVectors; ++c)
    delta.v[c] = delta_of(load(v + c * kLanes), decay, beta, read.v[c]);
  const std::int64_t ahead =
      row + 2 < t.n_rows ? 2 : 0;  // Rows lie too far apart for the processor to foresee.
  for (int c = 0; c < kScanVectors; ++c) prefetch(v + ahead * t.value_stride + c * kLanes);
  for (int first = 0; first < kDim; first += kLanes) {
    prefetch(k + ahead * t.key_stride + first);
    prefetch(q + ahead * t.key_stride + first);
    for (int i = first; i < first + kLanes; ++i) {
      const F16 key = broadcast(k[i]), query = broadcast(q[i]), key_next = broadcast(k_next[i]);
      for (int c = 0; c < kScanVectors; ++c) {
        const F16 old = load(t.scratch + i * kScanColumns + c * kLanes);
        const F16 s = fma(key, delta.v[c], mul(keep, old));
        store(to + i * to_stride + c * kLanes, s);
        out.v[c] = fma(query, s, out.v[c]);
        if (kMore) next.v[c] = fma(key_next, s, next.v[c]);
      }
    }
  }
  for (int c = 0; c < kScanVectors; ++c) store(t.o + row * t.value_stride + c * kLanes, out.v[c]);
  return next;
}

inline float* snapshot_of(const ScanTask& t, std::int64_t row) {
  return reinterpret_cast<float*>(t.snapshots + row * t.slot_bytes);
}

inline void save_columns(const ScanTask& t, std::int64_t row, const float* from, int stride) {
  if (t.snapshots == nullptr) return;
  float* const to = snapshot_of(t, row);
  for (int i = 0; i < kDim; ++i) {
    for (int c = 0; c < kScanColumns; c += kLanes)
      store(to + i * kDim + c, load(from + i * stride + c));
  }
}

inline void scan_columns(const ScanTask& t) {
  Columns read = read_columns(t);
  const std::int64_t last = t.n_rows - 1;
  for (std::int64_t row = 0; row < last; ++row) {
    read = update_columns<true>(t, row, read, t.scratch, kScanColumns);
    save_columns(t, row, t.scratch, kScanColumns);
  }
  update_columns<false>(t, last, read, t.state_out, kDim);
  save_columns(t, last, t.state_out, kDim);
}

// read [128] = sum_i k_i S_i, four keys a visit, in order.
inline void read_head(const float* k, const float* state, float (&read)[kDim]) {
  for (int c = 0; c < kDim; c += kLanes) store(read + c, zero());
  for (int i = 0; i < kDim; i += 4) {
    for (int c = 0; c < kDim; c += kLanes) {
      F16 sum = load(read + c);
      for (int j = 0; j < 4; ++j)
        sum = fma(broadcast(k[i + j]), load(state + (i + j) * kDim + c), sum);
      store(read + c, sum);
    }
  }
}

// One token over a whole head: to = fma(k, delta, decay * from), out = q to.
inline void update_head(const ScanTask& t, std::int64_t row, const float (&delta)[kDim],
                        const float* from, float* to) {
  const float* const k = t.k + row * t.key_stride;
  const float* const q = t.q + row * t.key_stride;
  float* const out = t.o + row * t.value_stride;
  const F16 keep = broadcast(t.decay[row * t.gate_stride]);
  for (int c = 0; c < kDim; c += kLanes) store(out + c, zero());
  for (int i = 0; i < kDim; i += 4) {
    for (int c = 0; c < kDim; c += kLanes) {
      const F16 d = load(delta + c);
      F16 sum = load(out + c);
      for (int j = i; j < i + 4; ++j) {
        const F16 s = fma(broadcast(k[j]), d, mul(keep, load(from + j * kDim + c)));
        store(to + j * kDim + c, s);
        sum = fma(broadcast(q[j]), s, sum);
      }
      store(out + c, sum);
    }
  }
}

inline void copy_head(const float* from, float* to) {
  for (int i = 0; i < kDim * kDim; i += kLanes) store(to + i, load(from + i));
}

inline void zero_head(float* to) {
  for (int i = 0; i < kDim * kDim; i += kLanes) store(to + i, zero());
}

// With snapshots, each row's state goes straight to its slot and the next row reads it there.
inline void scan_rows(const ScanTask& t) {
  const float* from = t.state_in;
  if (from == nullptr) zero_head(t.state_out);
  if (from == nullptr) from = t.state_out;
  for (std::int64_t row = 0; row < t.n_rows; ++row) {
    float* const to = t.snapshots == nullptr ? t.state_out : snapshot_of(t, row);
    const std::int64_t gate = row * t.gate_stride;
    float delta[kDim];
    read_head(t.k + row * t.key_stride, from, delta);
    for (int c = 0; c < kDim; c += kLanes) {
      const F16 v = load(t.v + row * t.value_stride + c);
      store(delta + c, delta_of(v, t.decay[gate], t.beta[gate], load(delta + c)));
    }
    update_head(t, row, delta, from, to);
    from = to;
  }
  if (from != t.state_out) copy_head(from, t.state_out);
}

inline void gated_norm(float* y, const float* norm, const float* z, bool z_sigmoid, float eps) {
  const F16 scale = broadcast(inverse_rms(y, kDim, eps));
  for (int c = 0; c < kDim; c += kLanes) {
    const F16 gate = load(z + c);
    const F16 act = z_sigmoid ? sigmoid(gate) : silu(gate);
    store(y + c, mul(mul(mul(load(y + c), scale), load(norm + c)), act));
  }
}

inline GdnKernels gdn_kernels() {
  return {.convolve = convolve,
          .gates = gates,
          .n_scan_columns = kScanColumns,
          .scan_columns = scan_columns,
          .scan_rows = scan_rows,
          .gated_norm = gated_norm};
}

}  // namespace lily::cpu::LILY_ISA
