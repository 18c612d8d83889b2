// Weights as an array of bf16, for products that are to read them so: the same numbers that
// tile_block.h makes on the way into threadgroup memory.
// Grid: x ceil(16-byte words of codes / 128); groups of 128 threads, a word each.
// Traffic: codes, scales and biases in, 2 bytes a weight out, once.
#include "backend/gpu/kernels/dequantise_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/pass.h"
#include "backend/gpu/kernels/quant.h"

template <uint kBits>
FN void dequantise_word(CON DequantiseParams& a, ulong word) {
  const uint kWeights = 128 / kBits;
  const ulong group = word / (64 / kWeights);
  uint pairs[kWeights / 2];
  quant_pairs<kBits>(((DEV const uint4*)a.codes)[word], bf16_to_f(a.scales[group]),
                     bf16_to_f(a.biases[group]), pairs);
  DEV uint4* to = (DEV uint4*)a.out + word * (kWeights / 8);
  UNROLL for (uint i = 0; i < kWeights / 8; i++) {
    to[i] = make_uint4(pairs[4 * i], pairs[4 * i + 1], pairs[4 * i + 2], pairs[4 * i + 3]);
  }
}

KERNEL(dequantise, DequantiseParams, NoShared, 128) {
  const ulong word = (ulong)id.group.x * 128 + id.tid;
  const bool wanted = a.head_rows == 0 || pass_head_rows(a.control) >= a.head_rows;
  if (wanted && word < (ulong)a.rows * (a.cols * a.bits / 128)) {
    if (a.bits == 4) {
      dequantise_word<4>(a, word);
    } else {
      dequantise_word<8>(a, word);
    }
  }
}
