// A tokenizer.json with little more than the bytes, for tests that change it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace lily {

using TokenizerJson = nlohmann::json;

// The byte alphabet: byte 32 is written U+0120, printable ASCII is itself.
inline std::string byte_char(int byte) {
  const auto printable = [](int b) { return (b > 32 && b < 127) || (b > 160 && b != 173); };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  if (code < 128) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
}

inline TokenizerJson added(int id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// 256 bytes, "ab" (256), "abc" (257), and the added token <end> (260).
inline TokenizerJson small_tokenizer() {
  TokenizerJson vocab = TokenizerJson::object();
  for (int byte = 0; byte < 256; ++byte) vocab[byte_char(byte)] = byte;
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  const TokenizerJson byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", false},
                           {"use_regex", false}};
  const TokenizerJson split = {{"type", "Split"},
                      {"pattern", {{"Regex", R"(\p{M}| ?\p{L}+|\s+)"}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"added_tokens", TokenizerJson::array({added(260, "<end>")})},
          {"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer",
           {{"type", "Sequence"}, {"pretokenizers", TokenizerJson::array({split, byte_level})}}},
          {"post_processor", byte_level},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", TokenizerJson::array({"a b", TokenizerJson::array({"ab", "c"})})}}}};
}

}  // namespace lily
