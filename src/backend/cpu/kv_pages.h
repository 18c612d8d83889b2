// Where keys and values lie in the pages of the KV cache, bf16 here.
#pragma once

#include <cstdint>

#include "backend/args.h"
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

// The 256 numbers of one position.
inline std::uint16_t* kv_row(const KvLayer& kv, std::int64_t sequence, std::int64_t position,
                             std::int64_t head, KvPart part) {
  return page_at(kv, sequence, position / kKvPageTokens, head, part) +
         position % kKvPageTokens * kHeadDim;
}

}  // namespace lily::cpu
