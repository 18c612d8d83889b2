// attention: softmax over the row's past and itself, the weighted values, the sigmoid gate.
#include <algorithm>
#include <cmath>

#include "backend/reference/arithmetic.h"
#include "backend/reference/kv_pages.h"
#include "backend/reference/reference_backend.h"

namespace lily::reference {
namespace {

// One query head's place in the pass and the cache.
struct Query {
  std::int64_t row, head, kv_head, position, sequence;
};

// The attention weights over positions 0 .. the query's own: exp(score - largest) / their sum.
std::vector<double> softmax_weights(const AttentionArgs& args, const Query& at) {
  std::vector<double> weights(static_cast<std::size_t>(at.position) + 1);
  const float* q = args.q + (at.row * args.n_q_heads + at.head) * kHeadDim;
  for (std::size_t p = 0; p < weights.size(); ++p) {
    const auto position = static_cast<std::int64_t>(p);
    const float* k = kv_row(args.kv, at.sequence, position, at.kv_head, KvPart::kKey);
    weights[p] = dot(q, k, kHeadDim);
  }
  const double largest = *std::max_element(weights.begin(), weights.end());
  double sum = 0.0;
  for (double& w : weights) sum += w = std::exp(w - largest);
  for (double& w : weights) w /= sum;
  return weights;
}

void attend(const AttentionArgs& args, const Query& at) {
  const auto weights = softmax_weights(args, at);
  double mix[kHeadDim] = {};
  for (std::size_t p = 0; p < weights.size(); ++p) {
    const float* v =
        kv_row(args.kv, at.sequence, static_cast<std::int64_t>(p), at.kv_head, KvPart::kValue);
    for (int i = 0; i < kHeadDim; ++i) mix[i] += weights[p] * static_cast<double>(v[i]);
  }
  const std::int64_t index = at.row * args.n_q_heads + at.head;
  const float* gate = args.q_gate + (index * 2 + 1) * kHeadDim;
  for (int i = 0; i < kHeadDim; ++i)
    args.y[index * kHeadDim + i] = static_cast<float>(mix[i] * sigmoid(gate[i]));
}

}  // namespace

void ReferenceBackend::attention(const AttentionArgs& args) {
  const int group = args.n_q_heads / args.kv.n_kv_heads;
  for (int s = 0; s < args.control->n_segments; ++s) {
    const Segment& segment = args.control->segments[s];
    for (int i = 0; i < segment.n_rows; ++i) {
      for (int head = 0; head < args.n_q_heads; ++head) {
        attend(args,
               {segment.first_row + i, head, head / group, segment.position + i, segment.sequence});
      }
    }
  }
}

}  // namespace lily::reference
