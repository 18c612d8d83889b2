// The added tokens (control tokens and their kin): found in raw text before anything else happens
// to it.
#pragma once

#include <bitset>
#include <string>
#include <string_view>
#include <vector>

#include "spec/model_spec.h"

namespace lily {

struct AddedToken {
  TokenId id = -1;
  std::string spelling;  // Never empty.
  bool special = false;
};

class AddedTokens {
 public:
  struct Match {
    std::size_t begin = 0;
    const AddedToken* token = nullptr;  // nullptr: no further match.
  };

  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);  // Spellings and ids are distinct.

  // The leftmost spelling that lies whole in [begin, end) of the text, the longest of those that
  // start there.
  Match find(std::string_view text, std::size_t begin, std::size_t end) const;
  const AddedToken* by_spelling(std::string_view spelling) const;
  const AddedToken* by_id(TokenId id) const;
  const std::vector<AddedToken>& all() const { return tokens_; }  // By spelling.

 private:
  const AddedToken* longest_at(std::string_view text) const;
  std::vector<AddedToken> tokens_;
  std::vector<std::size_t> by_id_;  // Indices into tokens_, by id.
  std::bitset<256> starts_;         // The bytes that spellings start with.
};

}  // namespace lily
