// Quantised rows, norms, products and activations of the reference backend.
#include "backend/reference/arithmetic.h"

#include <algorithm>
#include <cmath>

#include "base/bf16.h"
#include "base/check.h"
#include "spec/layout.h"

namespace lily::reference {

void dequantise_row(const QuantMatrix& matrix, std::int64_t row, double* out) {
  LILY_CHECK(matrix.layout == static_cast<std::uint32_t>(WeightLayout::kRowMajor));
  LILY_CHECK(matrix.bits == 4 || matrix.bits == 8);
  LILY_CHECK(matrix.cols % kQuantGroup == 0 && row >= 0 && row < matrix.rows);
  const std::int64_t n_groups = matrix.cols / kQuantGroup;
  const auto* codes =
      static_cast<const std::uint8_t*>(matrix.codes) + row * matrix.cols * matrix.bits / 8;
  for (int col = 0; col < matrix.cols; ++col) {
    const std::int64_t group = row * n_groups + col / kQuantGroup;
    const int code = matrix.bits == 8 ? codes[col] : codes[col / 2] >> (col % 2 * 4) & 15;
    out[col] = static_cast<double>(bf16_to_float(matrix.scales[group])) * code +
               static_cast<double>(bf16_to_float(matrix.biases[group]));
  }
}

double dot(const double* w, const float* x, int n) {
  double sums[4] = {};
  for (int i = 0; i < n; i += 4) {
    for (int lane = 0; lane < 4; ++lane)
      sums[lane] += w[i + lane] * static_cast<double>(x[i + lane]);
  }
  return sums[0] + sums[1] + sums[2] + sums[3];
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
