// attention_prepare: norm and rope of queries and keys; keys and values go to the cache.
#include <algorithm>
#include <cmath>

#include "backend/reference/arithmetic.h"
#include "backend/reference/kv_pages.h"
#include "backend/reference/reference_backend.h"

namespace lily::reference {
namespace {

// out [256] = scale * rope(rmsnorm(x; norm), position). Rope turns the pairs (i, i + 32) of the
// first 64 dims.
void norm_and_turn(const AttentionPrepareArgs& args, const float* x, const float* norm,
                   std::int64_t position, double scale, float* out) {
  constexpr int kPairs = kRotaryDims / 2;
  const double inverse = inverse_rms(x, kHeadDim, args.eps);
  double y[kHeadDim];
  for (int i = 0; i < kHeadDim; ++i) y[i] = x[i] * inverse * static_cast<double>(norm[i]);
  for (int i = 0; i < kPairs; ++i) {
    const double angle = static_cast<double>(position) * args.rope_frequencies[i];
    const double c = std::cos(angle) * static_cast<double>(args.rope_magnitude);
    const double s = std::sin(angle) * static_cast<double>(args.rope_magnitude);
    const double a = y[i], b = y[i + kPairs];
    y[i] = a * c - b * s;
    y[i + kPairs] = b * c + a * s;
  }
  for (int i = 0; i < kHeadDim; ++i) out[i] = static_cast<float>(y[i] * scale);
}

void prepare_row(const AttentionPrepareArgs& args, std::int64_t row, std::int64_t position,
                 std::int64_t sequence) {
  for (int head = 0; head < args.n_q_heads; ++head) {
    const std::int64_t index = row * args.n_q_heads + head;
    norm_and_turn(args, args.q_gate + index * 2 * kHeadDim, args.q_norm, position,
                  1.0 / std::sqrt(static_cast<double>(kHeadDim)), args.q + index * kHeadDim);
  }
  for (int head = 0; head < args.kv.n_kv_heads; ++head) {
    const std::int64_t from = (row * args.kv.n_kv_heads + head) * kHeadDim;
    norm_and_turn(args, args.k + from, args.k_norm, position, 1.0,
                  kv_row(args.kv, sequence, position, head, KvPart::kKey));
    std::copy_n(args.v + from, kHeadDim, kv_row(args.kv, sequence, position, head, KvPart::kValue));
  }
}

}  // namespace

void ReferenceBackend::attention_prepare(const AttentionPrepareArgs& args) {
  for (int s = 0; s < args.control->n_segments; ++s) {
    const Segment& segment = args.control->segments[s];
    for (int i = 0; i < segment.n_rows; ++i) {
      prepare_row(args, segment.first_row + i, segment.position + i, segment.sequence);
    }
  }
}

}  // namespace lily::reference
