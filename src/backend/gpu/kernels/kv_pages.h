// Where a position's key and value lie in the pages of the KV cache (KvLayer in backend/args.h).
// Included by kernels after dialect.h.
#pragma once

KERNEL_CONST uint kKvPage = 64;  // Positions a page, and of a block of attention's.

struct KvPages {
  DEV ushort* pages;
  DEV const int* table;
  uint table_stride, n_heads;
};

// The keys of one page and head, [64, 256] bf16; its values follow at kKvPage * 256.
FN DEV ushort* kv_page(const THR KvPages& kv, int sequence, uint page, uint head) {
  const ulong index = (ulong)(uint)kv.table[(ulong)(uint)sequence * kv.table_stride + page];
  return kv.pages + (index * kv.n_heads + head) * 2 * kKvPage * 256;
}
