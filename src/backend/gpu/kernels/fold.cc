// Memory read and folded by exclusive or, for measuring: what reading costs where nothing is
// computed of what was read.
//   fold_words: bytes from end to end. Grid: ceil(bytes / 65536), at least one; groups of 256
//   threads, sixteen 16-byte loads each. Without bytes it is what a launch costs.
//   fold_rows: a quantised matrix as linear_few.cc reads it for one row. Grid: ceil(rows / 8);
//   groups of 64 threads: two simdgroups of four weight rows each.
// Traffic: what is read, once; a word a group.
#include "backend/gpu/kernels/fold_params.h"

#include "backend/gpu/dialect/dialect.h"

KERNEL_CONST uint kFoldLoads = 16, kFoldWeightRows = 4;

struct FoldShared {
  uint parts[8];
};

FN uint fold_four(uint4 v) {
  return (v.x ^ v.y) ^ (v.z ^ v.w);
}

// The words of all threads to the sink.
FN void fold_group(uint word, DEV uint* sink, TG FoldShared& sm, const THR Ids& id) {
  UNROLL for (uint apart = 16; apart > 0; apart /= 2) word ^= lanes_xor(word, apart);
  if (id.lane == 0) sm.parts[id.simd] = word;
  group_barrier();
  if (id.tid == 0) {
    uint all = 0;
    for (uint i = 0; i < id.threads / 32; i++) all ^= sm.parts[i];
    sink[id.group.x] = all;
  }
}

KERNEL(fold_words, FoldWordsParams, FoldShared, 256) {
  const ulong n = ((ulong)a.bytes_high << 32 | a.bytes_low) / 16;
  const ulong first = (ulong)id.group.x * (256 * kFoldLoads) + id.tid;
  DEV const uint4* from = (DEV const uint4*)a.from;
  uint words[kFoldLoads];
  UNROLL for (uint i = 0; i < kFoldLoads; i++) {
    const ulong at = first + 256 * i;
    words[i] = at < n ? fold_four(from[at]) : 0u;
  }
  uint word = 0;
  UNROLL for (uint i = 0; i < kFoldLoads; i++) word ^= words[i];
  fold_group(word, a.sink, sm, id);
}

// Two neighbouring scales are a word; each is read by the lanes whose codes it belongs to, and
// counted by the first of them.
KERNEL(fold_rows, FoldRowsParams, FoldShared, 64) {
  const uint steps = a.cols * a.bits / 128, groups = a.cols / 64, lanes = steps / groups;
  const uint row0 = (id.group.x * 2 + id.simd) * kFoldWeightRows;
  DEV const uint4* codes = (DEV const uint4*)a.codes;
  uint word = 0;
  for (uint s = id.lane; s < steps; s += 32) {
    UNROLL for (uint r = 0; r < kFoldWeightRows; r++) {
      const ulong row = u_min(row0 + r, a.rows - 1), group = row * groups + s / lanes;
      const uint sides = (uint)a.scales[group] ^ (uint)a.biases[group];
      const uint counted = s % lanes == 0 ? sides << (16 * (uint)(group & 1)) : 0u;
      const uint read = fold_four(codes[row * steps + s]) ^ counted;
      word ^= row0 + r < a.rows ? read : 0u;
    }
  }
  fold_group(word, a.sink, sm, id);
}
