// Rope's angles without a double: a frequency becomes turns a position in 64-bit fixed point, whose
// multiples wrap where the circle does. The angle is right to 2^-32 turns at any position, and its
// sine and cosine have the same bits on every device. Included by kernels after dialect.h.
#pragma once

struct RopeTurn {
  float cosine, sine;
};

// x * y, the upper 64 bits of 128.
FN ulong rope_high(ulong x, ulong y) {
  const ulong low = 0xffffffffu;
  const ulong x0 = x & low, x1 = x >> 32, y0 = y & low, y1 = y >> 32;
  const ulong middle = x1 * y0 + (x0 * y0 >> 32);
  return x1 * y1 + (middle >> 32) + (((middle & low) + x0 * y1) >> 32);
}

// 2^64 times the turns of one position: m 2^(e - 1075) radians, m the mantissa with its leading
// one, over 2 pi. Frequencies are at most 1 and not subnormal, so the shift is at least 54.
FN ulong rope_turns(uint low, uint high) {
  const ulong two_pi_inverse = ((ulong)0xa2f9836eu << 32) | 0x4e44152au;  // 2^66 / (2 pi)
  const ulong m = ((ulong)((high & 0xfffffu) | 0x100000u) << 32) | low;
  const uint shift = 1077 - (high >> 20);
  const ulong upper = rope_high(m, two_pi_inverse), lower = m * two_pi_inverse;
  if (shift < 64) return (upper << (64 - shift)) | (lower >> shift);
  return shift < 128 ? upper >> (shift - 64) : 0;
}

// Quadrant and remainder; polynomials fitted to [-pi/4, pi/4], off by less than 4e-9.
FN void rope_turn(ulong turns, uint position, THR RopeTurn& turn) {
  const uint f = (uint)((turns * position + 0x80000000u) >> 32);  // 2^32 is a turn.
  const uint quadrant = (f + 0x20000000u) >> 30;
  const float x = (float)(int)(f - (quadrant << 30)) * 0x1.921fb6p-30f;
  const float t = x * x;
  float s = m_fma(-0x1.994eb4p-13f, t, 0x1.11076p-7f);
  s = m_fma(s, t, -0x1.555546p-3f);
  s = m_fma(s * t, x, x);
  float c = m_fma(0x1.9a025ap-16f, t, -0x1.6c0c8cp-10f);
  c = m_fma(c, t, 0x1.55554ap-5f);
  c = m_fma(c * t, t, m_fma(-0.5f, t, 1.0f));
  turn.cosine = (quadrant & 1u) != 0 ? s : c;
  turn.sine = (quadrant & 1u) != 0 ? c : s;
  if (((quadrant + 1u) & 2u) != 0) turn.cosine = -turn.cosine;
  if ((quadrant & 2u) != 0) turn.sine = -turn.sine;
}
