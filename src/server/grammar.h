// Answers that are JSON of a given schema: xgrammar behind one file, or nothing where a build has
// it not.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "server/constraints.h"
#include "text/chat_json.h"

namespace lily::server {

class GrammarCompiler {
 public:
  // `ends`: the tokens that end an answer. The tokenizer stays as long as this and its constraints.
  GrammarCompiler(const Tokenizer& tokenizer, std::vector<TokenId> ends);
  ~GrammarCompiler();
  GrammarCompiler(const GrammarCompiler&) = delete;
  GrammarCompiler& operator=(const GrammarCompiler&) = delete;

  // From any thread. `schema` is as check_schema() left it. kInvalidArgument: it means nothing, or
  // nothing fits it; kUnsupported: this build has no grammars.
  Result<Constraints> compile(const Json& schema);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lily::server
