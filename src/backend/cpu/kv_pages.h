// Where keys and values lie in the pages of the KV cache, bf16 here. Keys are interleaved as they
// are written, so that a query is multiplied with sixteen positions at a time and nothing has to be
// transposed when they are read: at decode that is for each token again.
#pragma once

#include <cstdint>
#include <cstring>

#include "backend/args.h"
#include "backend/ops.h"
#include "spec/model_spec.h"

namespace lily::cpu {

enum class KvPart { kKeys = 0, kValues = 1 };

// The [kKvPageTokens, 256] keys or values of page number `page_index` of a sequence, for one KV
// head.
inline std::uint16_t* page_at(const KvLayer& kv, std::int64_t sequence, std::int64_t page_index,
                              std::int64_t head, KvPart part) {
  const std::int64_t page = kv.page_table[sequence * kv.table_stride + page_index];
  const std::int64_t block = (page * kv.n_kv_heads + head) * 2 + static_cast<std::int64_t>(part);
  return static_cast<std::uint16_t*>(kv.pages) + block * kKvPageTokens * kHeadDim;
}

// The 256 numbers of one position's value.
inline std::uint16_t* value_row(const KvLayer& kv, std::int64_t sequence, std::int64_t position,
                                std::int64_t head) {
  return page_at(kv, sequence, position / kKvPageTokens, head, KvPart::kValues) +
         position % kKvPageTokens * kHeadDim;
}

// Writes a position's key.
inline void store_key(const KvLayer& kv, std::int64_t sequence, std::int64_t position,
                      std::int64_t head, const std::uint16_t (&key)[kHeadDim]) {
  std::uint16_t* const page = page_at(kv, sequence, position / kKvPageTokens, head, KvPart::kKeys);
  for (int d = 0; d < kHeadDim; d += 2) {
    std::memcpy(page + key_offset(KeyLayout::kInterleaved16, position % kKvPageTokens, d), key + d,
                2 * sizeof(key[0]));
  }
}

}  // namespace lily::cpu
