// Range reductions and polynomials of sin_cos() and natural_log().
#include "backend/cpu/precise.h"

#include <cmath>
#include <cstdint>

namespace lily::cpu {
namespace {

// pi / 2 as the sum of two doubles.
constexpr double kHalfPiHigh = 0x1.921fb54442d18p+0;
constexpr double kHalfPiLow = 0x1.1a62633145c07p-54;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;

// sum of c[i] z^i by Horner's rule.
template <int kN>
double polynomial(const double (&c)[kN], double z) {
  double sum = c[kN - 1];
  for (int i = kN - 2; i >= 0; --i) sum = std::fma(sum, z, c[i]);
  return sum;
}

// |r| <= pi / 4: the first term left out is below 1e-17.
double sine_of(double r) {
  constexpr double kTerms[] = {
      -1.0 / 6,        1.0 / 120,         -1.0 / 5040,          1.0 / 362880,
      -1.0 / 39916800, 1.0 / 6227020800., -1.0 / 1307674368000.};
  const double z = r * r;
  return std::fma(r * z, polynomial(kTerms, z), r);
}
double cosine_of(double r) {
  constexpr double kTerms[] = {
      -1.0 / 2,       1.0 / 24,         -1.0 / 720,          1.0 / 40320,
      -1.0 / 3628800, 1.0 / 479001600., -1.0 / 87178291200., 1.0 / 20922789888000.};
  const double z = r * r;
  return std::fma(z, polynomial(kTerms, z), 1.0);
}

}  // namespace

SinCos sin_cos(double angle) {
  const double turns = std::nearbyint(angle * kTwoOverPi);
  double r = std::fma(-turns, kHalfPiHigh, angle);
  r = std::fma(-turns, kHalfPiLow, r);
  const double s = sine_of(r), c = cosine_of(r);
  switch (static_cast<std::int64_t>(turns) & 3) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}

// x = m 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172:
// the first term left out is below 1e-18.
double natural_log(double x) {
  constexpr double kTerms[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11,
                               1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
  constexpr double kLn2 = 0x1.62e42fefa39efp-1, kRootHalf = 0x1.6a09e667f3bcdp-1;
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < kRootHalf) {
    m += m;
    --exponent;
  }
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  return std::fma(static_cast<double>(exponent), kLn2,
                  2.0 * std::fma(s * z, polynomial(kTerms, z), s));
}

}  // namespace lily::cpu
