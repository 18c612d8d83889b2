// What one token costs, from the shape alone: bytes that must be read and multiply-adds that must
// be done. Benchmarks state speed as a share of what the machine could do with them.
#pragma once

#include <cstdint>

#include "spec/model_spec.h"

namespace lily {

struct TokenWork {
  std::uint64_t weight_bytes =
      0;  // Quantised matrices, scales and biases included; the chosen experts only.
  std::uint64_t state_bytes = 0;         // Recurrent states with their windows, read and written.
  std::uint64_t kv_bytes = 0;            // Cached positions, read.
  std::uint64_t multiply_adds = 0;       // In quantised matrices, lm_head left out.
  std::uint64_t head_multiply_adds = 0;  // In lm_head: once per prompt, once per generated token.
};

// With the family's widths: 4-bit matrices, 8 bits for router and shared gate, bf16 for cached
// positions.
TokenWork work_per_token(const ModelSpec& spec, std::int64_t cached_positions);

}  // namespace lily
