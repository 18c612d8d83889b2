// A build without xgrammar.
#include "server/grammar.h"

namespace lily::server {

struct GrammarCompiler::Impl {};

GrammarCompiler::GrammarCompiler(const Tokenizer&, std::vector<TokenId>) {}
GrammarCompiler::~GrammarCompiler() = default;

Result<Constraints> GrammarCompiler::compile(const Json&) {
  return Error{ErrorCode::kUnsupported, "this build has no grammars, JSON cannot be promised"};
}

}  // namespace lily::server
