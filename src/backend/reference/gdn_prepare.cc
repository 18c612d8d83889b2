// gdn_prepare: causal convolution with its window, SiLU, q and k norms, decay and write strength.
#include <algorithm>
#include <cmath>
#include <span>

#include "backend/reference/arithmetic.h"
#include "backend/reference/reference_backend.h"
#include "spec/model_spec.h"

namespace lily::reference {
namespace {

constexpr int kWindowRows = kConvTaps - 1;

std::size_t conv_dim(const GdnPrepareArgs& args) {
  return static_cast<std::size_t>((2 * args.n_key_heads + args.n_value_heads) * kDeltaDim);
}

float* window_of(const StateLayer& state, std::int64_t slot) {
  return reinterpret_cast<float*>(state.base + slot * state.slot_bytes + state.conv_offset);
}

// mixed [C] = silu(sum over taps of weight * row), the rows being the window's three and then
// `current`.
void convolve(const float* weight, const std::vector<float>& window, std::span<const float> current,
              std::vector<double>& mixed) {
  const std::size_t n = current.size();
  for (std::size_t c = 0; c < n; ++c) {
    const float* taps = weight + c * kConvTaps;
    double sum = static_cast<double>(taps[kWindowRows]) * static_cast<double>(current[c]);
    for (std::size_t j = 0; j < kWindowRows; ++j) {
      sum += static_cast<double>(taps[j]) * static_cast<double>(window[j * n + c]);
    }
    mixed[c] = silu(sum);
  }
}

// The oldest row leaves, `current` becomes the newest.
void shift(std::vector<float>& window, std::span<const float> current) {
  const auto n = static_cast<std::ptrdiff_t>(current.size());
  std::copy(window.begin() + n, window.end(), window.begin());
  std::copy(current.begin(), current.end(), window.end() - n);
}

// out [kDeltaDim] = scale * x / sqrt(mean(x^2) + eps).
void normalise(const double* x, double scale, double eps, float* out) {
  const double factor = scale * inverse_rms(x, kDeltaDim, eps);
  for (int i = 0; i < kDeltaDim; ++i) out[i] = static_cast<float>(x[i] * factor);
}

void write_heads(const GdnPrepareArgs& args, std::int64_t row, const std::vector<double>& mixed) {
  const int key_dim = args.n_key_heads * kDeltaDim, value_dim = args.n_value_heads * kDeltaDim;
  for (int head = 0; head < args.n_key_heads; ++head) {
    const double* q = mixed.data() + head * kDeltaDim;
    const std::int64_t to = row * key_dim + head * kDeltaDim;
    normalise(q, 1.0 / kDeltaDim, args.eps, args.q + to);
    normalise(q + key_dim, 1.0 / std::sqrt(static_cast<double>(kDeltaDim)), args.eps, args.k + to);
  }
  for (int i = 0; i < value_dim; ++i) {
    args.v[row * value_dim + i] =
        static_cast<float>(mixed[static_cast<std::size_t>(2 * key_dim + i)]);
  }
}

void write_gates(const GdnPrepareArgs& args, std::int64_t row) {
  for (int head = 0; head < args.n_value_heads; ++head) {
    const std::int64_t i = row * args.n_value_heads + head;
    const double step =
        softplus(static_cast<double>(args.a[i]) + static_cast<double>(args.dt_bias[head]));
    args.beta[i] = static_cast<float>(sigmoid(args.b[i]));
    args.decay[i] =
        static_cast<float>(std::exp(-std::exp(static_cast<double>(args.a_log[head])) * step));
  }
}

void prepare_segment(const GdnPrepareArgs& args, const Segment& segment) {
  const std::size_t n = conv_dim(args);
  std::vector<float> window(kWindowRows * n, 0.0f);
  std::vector<double> mixed(n);
  if (segment.state_in >= 0)
    std::copy_n(window_of(args.state, segment.state_in), window.size(), window.begin());
  for (std::int64_t i = 0; i < segment.n_rows; ++i) {
    const std::int64_t row = segment.first_row + i;
    const std::span current(args.qkv + static_cast<std::size_t>(row) * n, n);
    convolve(args.conv_weight, window, current, mixed);
    write_heads(args, row, mixed);
    write_gates(args, row);
    shift(window, current);
    if (segment.snapshots >= 0)
      std::copy(window.begin(), window.end(), window_of(args.state, segment.snapshots + i));
  }
  std::copy(window.begin(), window.end(), window_of(args.state, segment.state_out));
}

}  // namespace

void ReferenceBackend::gdn_prepare(const GdnPrepareArgs& args) {
  for (int s = 0; s < args.control->n_segments; ++s)
    prepare_segment(args, args.control->segments[s]);
}

}  // namespace lily::reference
