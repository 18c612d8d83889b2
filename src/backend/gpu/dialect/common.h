// What the front ends share: arithmetic whose every bit is written down, reductions, bf16. Only for
// dialect.h.
//
// exp, log and their kin are the CPU backend's (backend/cpu/simd.h), operation by operation with
// explicit fma: the emulator and CUDA give the same bits; Metal too, where its division and square
// root round correctly (safe math).
#pragma once

struct NoShared {
  uint unused;
};

// ---- bf16 as bits: the upper half of a float. NaN is not kept apart when narrowing: kernels never
// meet one on purpose.
FN float bf16_to_f(ushort bits) {
  return as_type<float>((uint)bits << 16);
}
FN float bf16_lo(uint pair) {
  return as_type<float>(pair << 16);
}
FN float bf16_hi(uint pair) {
  return as_type<float>(pair & 0xffff0000u);
}
FN ushort f_to_bf16(float f) {
  const uint u = as_type<uint>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (ushort)((u >> 16) | 0x40u);
  return (ushort)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
FN uint bf16_pair(float lo, float hi) {
  return (uint)f_to_bf16(lo) | ((uint)f_to_bf16(hi) << 16);
}

// ---- comparisons, written out: what becomes of a NaN is then the same everywhere (the second
// argument wins).
FN float m_max(float x, float y) {
  return x > y ? x : y;
}
FN float m_min(float x, float y) {
  return x < y ? x : y;
}
FN float m_abs(float x) {
  return as_type<float>(as_type<uint>(x) & 0x7fffffffu);
}
FN uint u_min(uint x, uint y) {
  return x < y ? x : y;
}
FN uint u_max(uint x, uint y) {
  return x > y ? x : y;
}
FN int i_min(int x, int y) {
  return x < y ? x : y;
}
FN int i_max(int x, int y) {
  return x > y ? x : y;
}

// ---- functions
FN float m_rsqrt(float x) {
  return 1.0f / m_sqrt(x);
}

// 2^n in two factors, so that results below 2^-126 are reached too.
FN float times_pow2(float x, int n) {
  const int half_n = n >> 1;
  return x * as_type<float>((uint)(half_n + 127) << 23) *
         as_type<float>((uint)(n - half_n + 127) << 23);
}

// x = n ln2 + r; a polynomial of degree 6 in r. 1 ulp; 0 and infinity outside [-104, 89].
FN float m_exp(float x) {
  const float shift = 12582912.0f;  // 1.5 * 2^23: its sum with a small number holds that number,
                                    // rounded, in its low bits.
  x = m_min(89.0f, m_max(-104.0f, x));
  const float shifted = m_fma(x, 0x1.715476p+0f, shift);
  const float n = shifted - shift;
  float r = m_fma(n, -0x1.62e43p-1f, x);
  r = m_fma(n, 0x1.05c61p-29f, r);
  float p = 0x1.6d117cp-10f;
  p = m_fma(p, r, 0x1.120be2p-7f);
  p = m_fma(p, r, 0x1.555518p-5f);
  p = m_fma(p, r, 0x1.5554dcp-3f);
  p = m_fma(p, r, 0.5f);
  p = m_fma(p * r, r, r);
  return times_pow2(p + 1.0f, (int)(as_type<uint>(shifted) - as_type<uint>(shift)));
}

// 2 atanh(s), s at most 1/3 in size.
FN float twice_atanh(float s) {
  const float t = s * s;
  float q = 0.11612165f;
  q = m_fma(q, t, 0.108532876f);
  q = m_fma(q, t, 0.142961785f);
  q = m_fma(q, t, 0.19999853f);
  q = m_fma(q, t, 0.33333334f);
  const float twice = s + s;
  return m_fma(twice * t, q, twice);
}

// Of normal positive numbers; 0 gives -infinity, NaN and negative numbers are the caller's to
// avoid.
FN float m_log(float x) {
  if (x == 0.0f) return as_type<float>(0xff800000u);
  const uint bits =
      as_type<uint>(x) - 0x3f3504f3u;  // sqrt(1/2): the mantissa lies in [sqrt(1/2), sqrt(2))
  const float e = (float)((int)bits >> 23);
  const float m = as_type<float>((bits & 0x007fffffu) + 0x3f3504f3u);
  return m_fma(e, 0x1.62e43p-1f, m_fma(e, -0x1.05c61p-29f, twice_atanh((m - 1.0f) / (m + 1.0f))));
}

FN float m_sigmoid(float x) {
  return 1.0f / (1.0f + m_exp(-x));
}
FN float m_silu(float x) {
  return x / (1.0f + m_exp(-x));
}
// log(1 + e^x) = max(x, 0) + log1p(e^-|x|), never overflowing; log1p(u) = 2 atanh(u / (2 + u)).
FN float m_softplus(float x) {
  const float u = m_exp(-m_abs(x));
  return m_max(0.0f, x) + twice_atanh(u / (u + 2.0f));
}

// ---- reductions over the lanes. Each step adds the same two numbers in both partners, so all
// lanes hold the same bits.
#if !defined(LILY_GPU_OWN_SUMS)
FN float lanes_sum(float v) {
  UNROLL for (uint m = 16; m > 0; m >>= 1) v += lanes_xor(v, m);
  return v;
}
FN uint lanes_sum(uint v) {
  UNROLL for (uint m = 16; m > 0; m >>= 1) v += lanes_xor(v, m);
  return v;
}
FN float lanes_max(float v) {
  UNROLL for (uint m = 16; m > 0; m >>= 1) v = m_max(v, lanes_xor(v, m));
  return v;
}
#endif
// Kogge-Stone: after the step of distance d a lane holds the sum of up to 2d lanes ending with
// itself.
FN uint lanes_prefix(uint v, uint lane) {
  uint sum = v;
  UNROLL for (uint d = 1; d < 32; d <<= 1) {
    const uint before = lanes_read(sum, lane - d);
    sum += lane >= d ? before : 0u;
  }
  return sum - v;
}

FN float group_sum(float v, TG float* parts, const THR Ids& id) {
  v = lanes_sum(v);
  if (id.lane == 0) parts[id.simd] = v;
  group_barrier();
  float total = parts[0];
  for (uint s = 1; s < id.threads / 32; s++) total += parts[s];
  return total;
}
FN float group_max(float v, TG float* parts, const THR Ids& id) {
  v = lanes_max(v);
  if (id.lane == 0) parts[id.simd] = v;
  group_barrier();
  float most = parts[0];
  for (uint s = 1; s < id.threads / 32; s++) most = m_max(most, parts[s]);
  return most;
}
