// Sine, cosine and logarithm in double from plain operations and fma alone: the same bits on every
// machine, which the system's library does not promise.
#pragma once

namespace lily::cpu {

struct SinCos {
  double sine, cosine;
};

// Within 1e-15 for |angle| up to 2^30 radians. Reduces by multiples of pi / 2 in two parts, then
// Taylor polynomials.
SinCos sin_cos(double angle);

// Natural logarithm of a normal number above 0, within 1e-15 relative to max(1, |log x|). NaN gives
// NaN.
double natural_log(double x);

}  // namespace lily::cpu
