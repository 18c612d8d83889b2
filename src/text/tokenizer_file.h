// tokenizer.json, read and checked: everything a Tokenizer is built from.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/merge_table.h"
#include "text/vocab.h"

namespace lily {

struct TokenizerFile {
  Vocab vocab;                          // Base tokens only; an added token's id has no bytes here.
  std::array<TokenId, 256> byte_ids{};  // The token of each byte alone.
  std::vector<Merge> merges;            // In rank order.
  std::vector<AddedToken> added;        // Distinct ids and spellings; none is a base token's.
  std::string split_pattern;
  bool ignore_merges = false;  // A piece that is a token is taken whole.
};

// `config_json` is tokenizer_config.json, or empty: its added_tokens_decoder completes the added
// tokens. kUnsupported: a well-formed tokenizer of another kind (named); kCorrupt: anything else
// wrong with the text, said where.
Result<TokenizerFile> parse_tokenizer(std::string_view tokenizer_json,
                                      std::string_view config_json);

}  // namespace lily
