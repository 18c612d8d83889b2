// h [T, D] = the table's row of each token. scale * code is exact in fp32 and the sum is rounded
// once, so the result is the reference's, bit for bit.
// Grid: x ceil(cols / 256), y rows; groups of 64 threads, four columns a thread.
// Traffic: a row's codes, scales and biases once, h once.
#include "backend/gpu/kernels/embed_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/pass.h"

KERNEL(embed, EmbedParams, NoShared, 64) {
  const uint t = id.group.y, c = (id.group.x * 64 + id.tid) * 4;
  if (t < pass_rows(a.control) && c < a.cols) {
    const ulong token = (ulong)pass_token(a.control, t);
    const ulong group = token * (a.cols / 64) + c / 64;
    const ulong place = token * a.cols + c;  // codes before the four
    const uint word = a.codes[place * a.bits / 32] >> (place * a.bits % 32);
    const uint mask = (1u << a.bits) - 1;
    const float scale = bf16_to_f(a.scales[group]), bias = bf16_to_f(a.biases[group]);
    float v[4];
    UNROLL for (uint i = 0; i < 4; i++) v[i] =
        m_fma((float)((word >> (i * a.bits)) & mask), scale, bias);
    ((DEV float4*)(a.h + (ulong)t * a.cols))[c / 4] = make_float4(v[0], v[1], v[2], v[3]);
  }
}
