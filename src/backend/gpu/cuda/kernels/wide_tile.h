// Products of 128 rows of 4-bit weights with up to 128 rows of activations on Hopper's matrix
// units, by two warpgroups. Included after dialect.h, stage.h and wide_mma.h.
//
// Weights are the units' left operand: they go from device memory to registers, become bf16 there
// and are used up; a lane reads 16 bytes of a row at a time. So a product's width, the rows of
// activations, can be any multiple of 16: experts with few rows waste little.
// Activations are bf16, come to shared memory by copies two stages ahead, and lie in an order of
// columns that suits the lanes: of 128 columns the lane t of a quad has 32, and of each word of
// eight codes c the pairs (c, c + 4), which one mask takes out (wide_place).
// Codes become bf16 by way of 128 + code, exactly; scale and bias in one rounding: the weights are
// those of quant.h.
#pragma once

#include "backend/gpu/cuda/kernels/stage.h"
#include "backend/gpu/cuda/kernels/wide_mma.h"

KERNEL_CONST uint kWideThreads = 256, kWideRows = 128, kWideStages = 4, kWideK = 64;

// Where column c of 128 lies.
FN uint wide_place(uint c) {
  const uint t = c / 32, word = c / 8 % 4, code = c % 8;
  return 16 * (2 * word + code % 4 / 2) + 2 * t + 8 * (code % 2) + code / 4;
}

// One thread's two weight rows, 8 apart.
struct WideWeights {
  const uint4* codes[2];
  const ushort* scales[2];
  const ushort* biases[2];
};
FN void wide_row(WideWeights& w, uint i, const uint* codes, const ushort* scales,
                 const ushort* biases, ulong row, uint cols) {
  const uint t = threadIdx.x % 4;
  w.codes[i] = (const uint4*)codes + row * (cols / 32) + t;
  w.scales[i] = scales + row * (cols / 64) + t / 2;
  w.biases[i] = biases + row * (cols / 64) + t / 2;
}

// 128 columns of them.
struct WideCodes {
  uint4 codes[2];
  uint scales[2], biases[2];  // A pair of the same bf16.
};
FN void wide_load(const WideWeights& w, uint block, WideCodes& c) {
  UNROLL for (uint i = 0; i < 2; i++) {
    c.codes[i] = __ldg(w.codes[i] + block * 4);
    c.scales[i] = __ldg(w.scales[i] + block * 2);
    c.biases[i] = __ldg(w.biases[i] + block * 2);
  }
}

FN uint wide_pair(uint word, uint scale, uint bias) {
  const uint big = (word & 0x000f000fu) | 0x43004300u;
  uint code, weight;
  asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(code) : "r"(big), "r"(0x43004300u));
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(weight) : "r"(code), "r"(scale), "r"(bias));
  return weight;
}
// Left operands of four steps of 16 columns: of words 2 half and 2 half + 1 of each row.
FN void wide_unpack(const WideCodes& c, uint half, uint (*a)[4]) {
  UNROLL for (uint i = 0; i < 2; i++) {
    const uint scale = c.scales[i] * 0x10001u, bias = c.biases[i] * 0x10001u;
    const uint words[2] = {half == 0 ? c.codes[i].x : c.codes[i].z,
                           half == 0 ? c.codes[i].y : c.codes[i].w};
    UNROLL for (uint w = 0; w < 2; w++) {
      a[2 * w][i] = wide_pair(words[w], scale, bias);
      a[2 * w][2 + i] = wide_pair(words[w] >> 4, scale, bias);
      a[2 * w + 1][i] = wide_pair(words[w] >> 8, scale, bias);
      a[2 * w + 1][2 + i] = wide_pair(words[w] >> 12, scale, bias);
    }
  }
}

// Descriptor of rows of 128 bytes, swizzled in blocks of eight rows.
FN ulong wide_operand(const uchar* at) {
  return (ulong)((shared_address(at) & 0x3ffffu) >> 4) | (ulong)1 << 16 | (ulong)64 << 32 |
         (ulong)1 << 62;
}

// Rows of x, kN of them: row i is that of rows[i].
template <uint kN>
FN void wide_fetch(uchar* stage, const ushort* x, const uint* rows, uint cols, uint k0) {
  const uint chunk = threadIdx.x % 8;
  UNROLL for (uint j = 0; j < (kN + 31) / 32; j++) {
    const uint r = threadIdx.x / 8 + 32 * j;
    if (kN % 32 == 0 || r < kN) {
      copy16(stage + r * 128 + (chunk ^ (r & 7u)) * 16, x + (ulong)rows[r] * cols + k0 + chunk * 8);
    }
  }
}

FN void wide_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
FN void wide_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
FN void wide_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Left operands are read until a wait says otherwise: the compiler keeps them up to here.
FN void wide_hold(uint (*a)[4]) {
  UNROLL for (uint i = 0; i < 16; i++) asm volatile("" : "+r"(a[i / 4][i % 4])::"memory");
}

// A stage of 64 columns: its activations are there for all; those two stages on are asked for.
template <uint kN>
FN void wide_stage(float* sums, uint (*a)[4], uchar* area, const ushort* x, const uint* rows,
                   uint cols, uint stage) {
  copies_wait_for_groups<1>();
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  group_barrier();
  const uint next = stage + 2;
  if (next * kWideK < cols)
    wide_fetch<kN>(area + next % kWideStages * (kN * 128), x, rows, cols, next * kWideK);
  copies_commit();
  const uchar* at = area + stage % kWideStages * (kN * 128);
  wide_fence();
  UNROLL for (uint k = 0; k < 4; k++) WideMma<kN>::add(sums, a[k], wide_operand(at + k * 32));
  wide_commit();
}

// The group's memory for wide_product: 1,024 bytes more than stages of kN rows take are given.
FN uchar* wide_area() {
  return group_memory + (0u - shared_address(group_memory)) % 1024u;
}

// sums [kN / 2]: the warpgroup's 64 weight rows by kN rows of x. area: kWideStages * kN * 128
// bytes, 1,024 aligned. cols: a multiple of 128. Ends with a barrier.
template <uint kN>
FN void wide_product(float* sums, const WideWeights& w, const ushort* x, const uint* rows,
                     uint cols, uchar* area) {
  UNROLL for (uint i = 0; i < kN / 2; i++) sums[i] = 0.0f;
  UNROLL for (uint s = 0; s < 2; s++) {
    wide_fetch<kN>(area + s * (kN * 128), x, rows, cols, s * kWideK);
    copies_commit();
  }
  WideCodes codes;
  wide_load(w, 0, codes);
  uint even[4][4] = {}, odd[4][4] = {};
  for (uint block = 0; block < cols / 128; block++) {
    wide_unpack(codes, 0, even);
    wide_stage<kN>(sums, even, area, x, rows, cols, 2 * block);
    wide_wait<1>();
    wide_hold(odd);
    wide_unpack(codes, 1, odd);
    if ((block + 1) * 128 < cols) wide_load(w, block + 1, codes);
    wide_stage<kN>(sums, odd, area, x, rows, cols, 2 * block + 1);
    wide_wait<1>();
    wide_hold(even);
  }
  wide_wait<0>();
  // What follows is arithmetic, which the compiler would move before the wait.
  UNROLL for (uint i = 0; i < kN / 2; i++) asm volatile("" : "+f"(sums[i])::"memory");
  group_barrier();
}
