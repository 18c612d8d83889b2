// Bytes from one place to another that do not overlap: 16 at a time where both ends allow it, else
// one by one. Grid: ceil(bytes / 16384), or ceil(bytes / 1024); groups of 256 threads, four units
// each.
#include "backend/gpu/kernels/copy_params.h"

#include "backend/gpu/dialect/dialect.h"

KERNEL_CONST uint kCopyUnits = 4;

// Both addresses and the size are multiples of 16.
KERNEL(copy_words, CopyParams, NoShared, 256) {
  const ulong n = ((ulong)a.bytes_high << 32 | a.bytes_low) / 16;
  const ulong first = (ulong)id.group.x * (256 * kCopyUnits) + id.tid;
  UNROLL for (uint i = 0; i < kCopyUnits; i++) {
    const ulong at = first + 256 * i;
    if (at < n) ((DEV uint4*)a.to)[at] = ((DEV const uint4*)a.from)[at];
  }
}

KERNEL(copy_bytes, CopyParams, NoShared, 256) {
  const ulong n = (ulong)a.bytes_high << 32 | a.bytes_low;
  const ulong first = (ulong)id.group.x * (256 * kCopyUnits) + id.tid;
  UNROLL for (uint i = 0; i < kCopyUnits; i++) {
    const ulong at = first + 256 * i;
    if (at < n) a.to[at] = a.from[at];
  }
}
