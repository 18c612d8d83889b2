// Token bytes through Utf8Repair, which holds back what is not yet a character.
#include "text/stream_decoder.h"

namespace lily {

std::string StreamDecoder::push(TokenId id) {
  std::string out;
  if (options_.skip_special && tokenizer_.is_special(id)) return out;
  repair_.push(tokenizer_.token_bytes(id), out);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  repair_.finish(out);
  return out;
}

}  // namespace lily
