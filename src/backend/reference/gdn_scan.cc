// gdn_scan: the gated delta rule, token after token, then the gated norm of its output.
#include <algorithm>

#include "backend/reference/arithmetic.h"
#include "backend/reference/reference_backend.h"
#include "spec/model_spec.h"

namespace lily::reference {
namespace {

constexpr std::size_t kDim = kDeltaDim;
using State = std::vector<float>;    // S [128 (key), 128 (value)] of one head
using Vector = std::vector<double>;  // [128]

float* state_of(const StateLayer& state, std::int64_t slot, int head) {
  auto* heads = reinterpret_cast<float*>(state.base + slot * state.slot_bytes + state.delta_offset);
  return heads + static_cast<std::size_t>(head) * kDim * kDim;
}

// One token of one head; S stays f32 between tokens, so that a split of the segment changes
// nothing. Returns o.
Vector step(State& state, const float* q, const float* k, const float* v, double decay,
            double beta) {
  Vector read(kDim), out(kDim);
  for (std::size_t i = 0; i < kDim; ++i) {
    for (std::size_t j = 0; j < kDim; ++j)
      read[j] += k[i] * (decay * static_cast<double>(state[i * kDim + j]));
  }
  Vector delta(kDim);
  for (std::size_t j = 0; j < kDim; ++j) delta[j] = beta * (v[j] - read[j]);
  for (std::size_t i = 0; i < kDim; ++i) {
    for (std::size_t j = 0; j < kDim; ++j) {
      float& entry = state[i * kDim + j];
      entry = static_cast<float>(decay * static_cast<double>(entry) + k[i] * delta[j]);
      out[j] += static_cast<double>(q[i]) * static_cast<double>(entry);
    }
  }
  return out;
}

// y [128] = rmsnorm(o; norm) * act(z).
void write_gated(const GdnScanArgs& args, const Vector& o, const float* z, float* y) {
  const double inverse = inverse_rms(o.data(), kDeltaDim, args.eps);
  for (std::size_t i = 0; i < kDim; ++i) {
    const double gate = args.z_sigmoid != 0 ? sigmoid(z[i]) : silu(z[i]);
    y[i] = static_cast<float>(o[i] * inverse * static_cast<double>(args.norm[i]) * gate);
  }
}

void scan_head(const GdnScanArgs& args, const Segment& segment, int head) {
  const std::int64_t n_keys = args.n_key_heads, n_values = args.n_value_heads;
  const std::int64_t key_head = head / (n_values / n_keys);
  State state(kDim * kDim, 0.0f);
  if (segment.state_in >= 0)
    std::copy_n(state_of(args.state, segment.state_in, head), state.size(), state.begin());
  for (std::int64_t i = 0; i < segment.n_rows; ++i) {
    const std::int64_t row = segment.first_row + i;
    const std::int64_t key = (row * n_keys + key_head) * kDeltaDim, gate = row * n_values + head;
    const std::int64_t value = gate * kDeltaDim;
    const auto o =
        step(state, args.q + key, args.k + key, args.v + value, args.decay[gate], args.beta[gate]);
    write_gated(args, o, args.z + value, args.y + value);
    if (segment.snapshots >= 0)
      std::copy(state.begin(), state.end(), state_of(args.state, segment.snapshots + i, head));
  }
  std::copy(state.begin(), state.end(), state_of(args.state, segment.state_out, head));
}

}  // namespace

void ReferenceBackend::gdn_scan(const GdnScanArgs& args) {
  for (int s = 0; s < args.control->n_segments; ++s) {
    for (int head = 0; head < args.n_value_heads; ++head)
      scan_head(args, args.control->segments[s], head);
  }
}

}  // namespace lily::reference
