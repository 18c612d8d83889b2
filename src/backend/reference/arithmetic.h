// What several steps share: quantised rows as exact reals, norms, products, the activations, a
// head's block of rows. Sums are f64 throughout.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "backend/args.h"

namespace lily::reference {

// out [cols] = row `row` of a kRowMajor matrix: scale * code + bias, exact in f64 (bf16 times 8
// bits, plus bf16).
void dequantise_row(const QuantMatrix& matrix, std::int64_t row, double* out);

// The sum of w[i] x[i] over n entries, n a multiple of 4; four partial sums, added in order. w is
// float or double.
template <typename T>
double dot(const T* w, const float* x, int n) {
  double sums[4] = {};
  for (int i = 0; i < n; i += 4) {
    for (int lane = 0; lane < 4; ++lane) {
      sums[lane] += static_cast<double>(w[i + lane]) * static_cast<double>(x[i + lane]);
    }
  }
  return sums[0] + sums[1] + sums[2] + sums[3];
}

// y [n_rows, matrix.rows] = x [n_rows, matrix.cols] W^T.
void multiply(const QuantMatrix& matrix, const float* x, int n_rows, float* y);

// 1 / sqrt(mean(x^2) + eps) over the n entries of x, float or double.
template <typename T>
double inverse_rms(const T* x, int n, double eps) {
  double sum = 0.0;
  for (int i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return 1.0 / std::sqrt(sum / n + eps);
}

// y [n_rows, width] = x / rms(x) * weight, row by row.
void norm_rows(const float* x, const float* weight, int n_rows, int width, double eps, float* y);
std::vector<float> norm_rows(const float* x, const float* weight, int n_rows, int width,
                             double eps);

double sigmoid(double x);
double silu(double x);
double softplus(double x);

// Rows of the head's block that starts at `first`: at most kHeadBlockRows, none past n_head_rows.
int head_block_rows(const PassControl& control, int first);

}  // namespace lily::reference
