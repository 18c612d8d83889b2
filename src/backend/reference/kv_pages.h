// Where a position's key and value lie in the pages of the KV cache (f32 here).
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/args.h"
#include "spec/model_spec.h"

namespace lily::reference {

enum class KvPart { kKey = 0, kValue = 1 };

// The kHeadDim floats of one position, KV head and part, for a row of the page table.
inline float* kv_row(const KvLayer& kv, std::int64_t sequence, std::int64_t position,
                     std::int64_t head, KvPart part) {
  const std::int64_t page = kv.page_table[sequence * kv.table_stride + position / kKvPageTokens];
  const std::int64_t block = (page * kv.n_kv_heads + head) * 2 + static_cast<std::int64_t>(part);
  return static_cast<float*>(kv.pages) +
         (block * kKvPageTokens + position % kKvPageTokens) * kHeadDim;
}

}  // namespace lily::reference
