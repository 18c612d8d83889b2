// Which tokens an answer may hold, step by step: a grammar, for instance. Whoever implements it needs no lock: one thread asks.
#pragma once

#include <cstdint>
#include <span>

#include "spec/model_spec.h"

namespace lily {

class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // The tokens that may come next, end tokens among them where the answer may end: bit id % 32 of word id / 32. All words are
  // written.
  virtual void allowed(std::span<std::uint32_t> bits) = 0;
  // The token that was chosen, an end token too. False: it does not fit, and the answer fails.
  virtual bool accept(TokenId token) = 0;
};

}  // namespace lily
