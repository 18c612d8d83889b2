// The delta rule in chunks of 64 tokens, for many rows (delta_chunks.cu, delta_scan.cu). Included
// after dialect.h.
//
// Of a chunk that starts at the state S, with D_ij the decay behind token j through token i, and
// D_i that from the chunk's start:
//
//   L_ij = beta_i D_ij (k_i k_j), j < i        T = (I + L)^-1 diag(beta)
//   M_ij = D_ij (q_i k_j), j <= i
//   d = T (v - D k S)                          o = D q S + M d
//   S <- D_64 S + sum over i of D_64,i k_i^T d_i
//
// This is the WY form (Yang et al., "Gated Delta Networks", 2024). T and M depend on no state, so
// all chunks make theirs at once. No number of T or M exceeds 1, since |k| is 1 and |q| less: fp16
// has them, and q and k, to 11 bits.
#pragma once

KERNEL_CONST uint kChunkTokens = 64;

// Where a row of q and k, 128 floats a key head, is when delta_chunks has been there, in halves: in
// both the row itself; then T's and M's of a value head, k's for the first of the key head and q's
// for the second.
KERNEL_CONST uint kChunkT = 128, kChunkM = 192;

// Base-2 logarithms of decays, and their sums from the chunk's first token on: of the lane's two
// tokens.
FN float log_decay(float decay) {
  return fmaxf(log2f(decay), -150.0f);
}
FN float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
FN float2 sums_since_start(float first, float second) {
  const uint lane = threadIdx.x % 32;
  float sum = first + second;
  UNROLL for (uint m = 1; m < 32; m <<= 1) {
    const float before = __shfl_up_sync(0xffffffffu, sum, m);
    if (lane >= m) sum += before;
  }
  const float before = __shfl_up_sync(0xffffffffu, sum, 1);
  const float until_first = (lane > 0 ? before : 0.0f) + first;
  return make_float2(until_first, until_first + second);
}
