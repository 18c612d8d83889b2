// Decoding an answer token by token: only complete characters leave, and joined they are what
// Tokenizer::decode gives.
#pragma once

#include <string>
#include <utility>

#include "text/tokenizer.h"
#include "text/unicode.h"

namespace lily {

class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, DecodeOptions options = {})
      : tokenizer_(std::move(tokenizer)), options_(options) {}

  std::string push(TokenId id);  // The characters that this token completes; often one token's
                                 // text, sometimes nothing.
  std::string
  finish();  // U+FFFD if a character is unfinished, else nothing; ready for another stream.

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  Utf8Repair repair_;
};

}  // namespace lily
