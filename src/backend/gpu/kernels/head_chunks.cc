// The head's product for few rows that keeps of each chunk of logits what choosing needs
// (vocabulary_params.h): a greedy row's logits are then read no more. Logits as from linear_few.cc,
// chunks as from vocabulary.cc, bit for bit.
// Grid: x chunks, y ceil(rows / kX); groups of 256 threads, a simdgroup every eighth four of the
// chunk's weight rows.
// Traffic: lm_head once per kX rows; x once per four weight rows, and the chunk's logits, from
// cache.
#include "backend/gpu/kernels/head_chunks_params.h"

#include "backend/gpu/dialect/dialect.h"
#include "backend/gpu/kernels/linear_few.h"
#include "backend/gpu/kernels/vocabulary_chunk.h"

struct HeadChunksShared {
  float parts[4][32];
};

template <uint kX>
FN void head_chunks(CON HeadChunksParams& a, TG HeadChunksShared& sm, const THR Ids& id) {
  const uint all = linear_n_rows(a.linear), t0 = id.group.y * kX;
  if (t0 < all) {
    const uint begin = id.group.x * a.chunk, end = u_min(begin + a.chunk, a.vocab_used);
    CON LinearPart& part = a.linear.parts[0];
    for (uint row0 = begin + id.simd * kFewWeightRows; row0 < end; row0 += 8 * kFewWeightRows)
      linear_few_four<kX, true>(a.linear, part, row0, t0, all, id.lane);
    group_barrier_device();
    for (uint t = t0; t < u_min(t0 + kX, all); t++) {
      vocabulary_chunk(part.y + (ulong)t * part.rows, begin, end, 1.0f,
                       a.chunks + t * kVocabularyChunks + id.group.x, sm.parts, id);
      group_barrier();
    }
  }
}

KERNEL(head_chunks_1, HeadChunksParams, HeadChunksShared, 256) {
  head_chunks<1>(a, sm, id);
}
KERNEL(head_chunks_4, HeadChunksParams, HeadChunksShared, 256) {
  head_chunks<4>(a, sm, id);
}
