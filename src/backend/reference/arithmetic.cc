// Quantised rows, norms, products and activations of the reference backend.
#include "backend/reference/arithmetic.h"

#include <algorithm>
#include <cmath>

#include "base/bf16.h"
#include "base/check.h"
#include "spec/layout.h"

namespace lily::reference {

namespace {

// The kQuantGroup codes of one group; of a byte of two, the low nibble first.
void unpack_group(const std::uint8_t* bytes, int bits, double* codes) {
  if (bits == 8) {
    for (int i = 0; i < kQuantGroup; ++i) codes[i] = bytes[i];
    return;
  }
  for (int i = 0; i < kQuantGroup / 2; ++i) {
    codes[2 * i] = bytes[i] & 15;
    codes[2 * i + 1] = bytes[i] >> 4;
  }
}

}  // namespace

void dequantise_row(const QuantMatrix& matrix, std::int64_t row, double* out) {
  LILY_CHECK(matrix.layout == static_cast<std::uint32_t>(WeightLayout::kRowMajor));
  LILY_CHECK(matrix.bits == 4 || matrix.bits == 8);
  LILY_CHECK(matrix.cols % kQuantGroup == 0 && row >= 0 && row < matrix.rows);
  const std::int64_t n_groups = matrix.cols / kQuantGroup,
                     group_bytes = kQuantGroup * matrix.bits / 8;
  for (std::int64_t g = row * n_groups; g < (row + 1) * n_groups; ++g, out += kQuantGroup) {
    const double scale = bf16_to_float(matrix.scales[g]), bias = bf16_to_float(matrix.biases[g]);
    unpack_group(static_cast<const std::uint8_t*>(matrix.codes) + g * group_bytes, matrix.bits,
                 out);
    for (int i = 0; i < kQuantGroup; ++i) out[i] = scale * out[i] + bias;
  }
}

void multiply(const QuantMatrix& matrix, const float* x, int n_rows, float* y) {
  std::vector<double> weights(static_cast<std::size_t>(matrix.cols));
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    dequantise_row(matrix, r, weights.data());
    for (std::int64_t t = 0; t < n_rows; ++t) {
      y[t * matrix.rows + r] =
          static_cast<float>(dot(weights.data(), x + t * matrix.cols, matrix.cols));
    }
  }
}

void norm_rows(const float* x, const float* weight, int n_rows, int width, double eps, float* y) {
  for (std::int64_t t = 0; t < n_rows; ++t) {
    const float* in = x + t * width;
    const double inverse = inverse_rms(in, width, eps);
    for (int i = 0; i < width; ++i) {
      y[t * width + i] = static_cast<float>(in[i] * inverse * static_cast<double>(weight[i]));
    }
  }
}

std::vector<float> norm_rows(const float* x, const float* weight, int n_rows, int width,
                             double eps) {
  std::vector<float> y(static_cast<std::size_t>(n_rows) * static_cast<std::size_t>(width));
  norm_rows(x, weight, n_rows, width, eps, y.data());
  return y;
}

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

double silu(double x) {
  return x * sigmoid(x);
}

// log(1 + e^x) without overflow: x + log(1 + e^-x) where x is positive.
double softplus(double x) {
  return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}

int head_block_rows(const PassControl& control, int first) {
  return std::clamp(control.n_head_rows - first, 0, kHeadBlockRows);
}

}  // namespace lily::reference
