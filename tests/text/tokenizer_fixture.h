// The tokenizers that the text tests share, loaded once, and the recorded truth beside them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "text/tokenizer.h"

namespace lily {

inline std::string source_path(const std::string& relative) {
  return std::string(LILY_SOURCE_DIR) + "/" + relative;
}

// Where tools/fetch_real_tokenizer.sh puts the genuine vocabulary.
inline const std::string kRealTokenizerPath = LILY_REAL_TOKENIZER;

inline bool have_real_tokenizer() {
  return std::filesystem::exists(kRealTokenizerPath);
}

inline const Tokenizer& loaded(const std::string& path) {
  static std::map<std::string, Tokenizer> cache;
  const auto found = cache.find(path);
  if (found != cache.end()) return found->second;
  auto tokenizer = Tokenizer::load(path);
  if (!tokenizer) ADD_FAILURE() << tokenizer.error().message;
  return cache.emplace(path, std::move(tokenizer).value()).first->second;
}

inline const Tokenizer& pocket_tokenizer() {
  return loaded(source_path("models/pocket/tokenizer.json"));
}
inline const Tokenizer& real_tokenizer() {
  return loaded(kRealTokenizerPath);
}

inline nlohmann::json read_golden(const std::string& name) {
  const auto text = read_file(source_path("tests/golden/" + name), std::size_t{64} << 20);
  if (!text) ADD_FAILURE() << text.error().message;
  return nlohmann::json::parse(text.value());
}

}  // namespace lily

#define LILY_SKIP_WITHOUT_REAL_TOKENIZER()                                  \
  if (!lily::have_real_tokenizer()) {                                       \
    GTEST_SKIP() << "no genuine vocabulary at " << lily::kRealTokenizerPath \
                 << "; make test-tokens fetches it";                        \
  }
