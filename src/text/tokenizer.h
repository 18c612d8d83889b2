// Text to token ids and back, with the same ids as the Hugging Face `tokenizers` library gives for
// the same tokenizer.json.
//
//   added tokens are cut out of the raw text -> NFC on what lies between -> split by pattern ->
//   byte-pair merging
//
// Reading the file is tokenizer_file.h, the steps are added_tokens.h, unicode.h, split.h and bpe.h.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "spec/model_spec.h"
#include "text/text_piece.h"

namespace lily {

struct DecodeOptions {
  bool skip_special = false;  // Leave out tokens marked special; <think> and <tool_call> are added,
                              // yet not special.
};

// Immutable once loaded, safe to use from many threads; copies share the tables.
class Tokenizer {
 public:
  // Reads tokenizer.json (at most 64 MiB) and, where it lies beside it, tokenizer_config.json (at
  // most 16 MiB), whose added_tokens_decoder may list further added tokens. kUnsupported: another
  // kind of tokenizer, named; kCorrupt: a file that contradicts itself, with the place; and
  // read_file's errors.
  static Result<Tokenizer> load(const Path& tokenizer_json);
  // The same from the files' contents; `config_json` may be empty.
  static Result<Tokenizer> parse(std::string_view tokenizer_json,
                                 std::string_view config_json = {});

  // Text may be any bytes: each broken UTF-8 sequence counts as U+FFFD. Time is linear but for a
  // logarithm on pieces over 96 bytes; a piece over 16 MiB is cut.
  std::vector<TokenId> encode(
      std::string_view text) const;  // Added tokens' spellings become those tokens.
  std::vector<TokenId> encode_plain(std::string_view text) const;  // They are ordinary text.
  // The pieces as one text, in which an added token counts only where its whole spelling lies in
  // trusted pieces.
  std::vector<TokenId> encode_pieces(std::span<const TextPiece> pieces) const;

  // The tokens' bytes joined, each broken UTF-8 sequence as U+FFFD. Ids without a token are
  // nothing.
  std::string decode(std::span<const TokenId> ids, DecodeOptions options = {}) const;

  std::string_view token_bytes(
      TokenId id) const;  // May be part of a character; empty for an id without a token.
  std::string token_text(TokenId id) const;  // The same made valid UTF-8, to show.
  std::optional<TokenId> id_of(std::string_view spelling) const;  // Of an added token.
  bool is_added(TokenId id) const;
  bool is_special(TokenId id) const;  // Added and marked special.
  TokenId vocab_size() const;         // Ids that have a token.
  TokenId n_ids() const;              // One past the largest of them.

 private:
  struct Tables;
  explicit Tokenizer(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}
  std::shared_ptr<const Tables> tables_;
};

}  // namespace lily
