// Constraints made of constraints: thinking first, then another; one of two.
#pragma once

#include <functional>
#include <memory>

#include "engine/engine.h"
#include "engine/token_constraint.h"

namespace lily::server {

// What gives each choice of an answer a constraint of its own. Empty: anything may be written.
using Constraints = std::function<std::shared_ptr<TokenConstraint>()>;

void set_bit(std::span<std::uint32_t> bits, TokenId id);
void clear_bit(std::span<std::uint32_t> bits, TokenId id);
bool is_end(const Engine& engine, TokenId id);

// Free text, without control tokens and without the end of the answer, until `end` was written:
// what thinking is, and the value of a parameter. A token that would go on behind `end` is not let
// through.
class FreeText {
 public:
  FreeText(const Engine& engine, std::string_view end);
  void begin(std::string_view already = {});
  void allowed(std::span<std::uint32_t> bits) const;
  enum class State { kOpen, kEnded, kRefused };
  State accept(TokenId token);

 private:
  const Engine& engine_;
  std::string end_;
  std::shared_ptr<const std::vector<TokenId>> borderline_;  // Tokens that can complete `end`.
  std::string tail_;                                        // The last bytes, less than `end` has.
};

// Thinking, </think> and two line ends, then what `inner` lets through.
Constraints behind_thinking(const Engine& engine, Constraints inner);
// Each token has to be let through by one of them that let all tokens before through.
Constraints either(Constraints first, Constraints second);

}  // namespace lily::server
