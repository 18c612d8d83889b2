// Random cases of the attention steps from a seed.
#pragma once

#include <vector>

#include "tests/backend/mixer_parts.h"

namespace lily::cases {

inline AttentionCase attention_case(const ModelSpec& spec, const std::vector<Piece>& pieces, int seed) {
  Random random(static_cast<std::uint64_t>(seed));
  return random_attention(random, spec, make_pass(spec, pieces, {}, random));
}
inline AttentionPrepareCase prepare_case(const ModelSpec& spec, const std::vector<Piece>& pieces,
                                  int seed) {
  Random random(static_cast<std::uint64_t>(seed));
  return random_attention_prepare(random, spec, make_pass(spec, pieces, {}, random));
}

}  // namespace lily::cases
