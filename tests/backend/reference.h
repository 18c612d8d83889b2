// The reference backend for tests, prepared once, and rows of a case's buffers.
#pragma once

#include <cmath>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "backend/reference/reference_backend.h"
#include "base/check.h"
#include "tests/backend/cases.h"

namespace lily::cases {

inline Backend& reference() {
  static const std::unique_ptr<Backend> backend = [] {
    auto opened = reference::open({});
    LILY_CHECK(opened.has_value() && (*opened)->prepare(pocket_spec(), kMaxPassRows).has_value());
    return std::move(*opened);
  }();
  return *backend;
}

// Rows first .. first + n of a buffer of n_rows rows.
inline std::vector<float> rows_of(const std::vector<float>& all, int n_rows, int first, int n) {
  const auto width = std::ssize(all) / n_rows;
  return {all.begin() + first * width, all.begin() + (first + n) * width};
}

// x / sqrt(mean(x^2) + eps) * weight, of row `row`.
inline std::vector<double> normed(const std::vector<float>& x, std::size_t row,
                                  const std::vector<float>& weight, double eps) {
  const std::size_t n = weight.size();
  long double mean = 0.0L;
  for (std::size_t i = 0; i < n; ++i)
    mean += static_cast<long double>(x[row * n + i]) * x[row * n + i] / n;
  std::vector<double> y(n);
  for (std::size_t i = 0; i < n; ++i)
    y[i] = static_cast<double>(x[row * n + i] / std::sqrt(mean + eps) * weight[i]);
  return y;
}

// x W^T of one row, entry by entry.
inline std::vector<double> times_matrix(const std::vector<double>& x, const Matrix& w,
                                        int first_row, int n_rows) {
  std::vector<double> y(static_cast<std::size_t>(n_rows));
  for (int c = 0; c < w.cols; ++c) {
    for (int r = 0; r < n_rows; ++r)
      y[static_cast<std::size_t>(r)] += w.at(first_row + r, c) * x[static_cast<std::size_t>(c)];
  }
  return y;
}

// Error bounds, relative to the norm: a result rounded once to f32, and one whose inputs were
// rounded before.
inline constexpr double kOneRounding = 0x1p-24;
inline constexpr double kFewRoundings = 0x1p-22;

}  // namespace lily::cases
