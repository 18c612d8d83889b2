// Log-sums and largest entries of a row of logits.
#include "backend/reference/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lily::reference {

bool all_finite(std::span<const float> logits) {
  return std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); });
}

double log_sum(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const double x : logits) sum += std::exp(x - largest);
  return largest + std::log(sum);
}

std::vector<std::int32_t> top_ids(std::span<const float> logits, int n) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto kept = std::min<std::ptrdiff_t>(n, std::ssize(ids));
  std::partial_sort(ids.begin(), ids.begin() + kept, ids.end(), before);
  ids.resize(static_cast<std::size_t>(kept));
  return ids;
}

}  // namespace lily::reference
