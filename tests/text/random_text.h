// Random text for property tests: characters of many kinds, control-token spellings and runs, valid
// UTF-8 throughout.
#pragma once

#include <rapidcheck.h>

#include <string>
#include <utility>
#include <vector>

#include "text/unicode.h"

namespace lily {

// A character from ranges whose classes are the same in every Unicode version in use.
inline rc::Gen<std::string> random_character() {
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges = {
      {0x00, 0x7F},     {0x20, 0x7E},     {'a', 'e'},         {0x80, 0xFF},      {0x17F, 0x17F},
      {0x300, 0x345},   {0x410, 0x44F},   {0x5D0, 0x5EA},     {0x660, 0x669},    {0x915, 0x94D},
      {0x1100, 0x1112}, {0x1161, 0x1175}, {0x11A8, 0x11C2},   {0x180E, 0x180E},  {0x2000, 0x200D},
      {0x2028, 0x2029}, {0x212A, 0x212B}, {0x2460, 0x2470},   {0x3000, 0x3000},  {0x4E00, 0x4EFF},
      {0xAC00, 0xAC1C}, {0xFE0F, 0xFE0F}, {0x1F300, 0x1F5FF}, {0x1D15E, 0x1D164}};
  return rc::gen::mapcat(
      rc::gen::elementOf(ranges), [](const std::pair<std::uint32_t, std::uint32_t>& range) {
        return rc::gen::map(rc::gen::inRange(range.first, range.second + 1), [](std::uint32_t c) {
          std::string text;
          append_utf8(c, text);
          return text;
        });
      });
}

inline rc::Gen<std::string> joined(rc::Gen<std::vector<std::string>> parts) {
  return rc::gen::map(std::move(parts), [](const std::vector<std::string>& list) {
    std::string text;
    for (const std::string& part : list) text += part;
    return text;
  });
}

inline rc::Gen<std::string> random_text() {
  const auto word = rc::gen::elementOf(std::vector<std::string>{"'s",
                                                                "'LL",
                                                                "I'm",
                                                                " the",
                                                                "hello",
                                                                "  ",
                                                                "\r\n",
                                                                "\n\n",
                                                                " \n ",
                                                                "e\u0301",
                                                                "<|im_start|>",
                                                                "<|im_end|>",
                                                                "<think>",
                                                                "</think>",
                                                                "<|im_",
                                                                "end|>",
                                                                "<tool_call>",
                                                                "12",
                                                                "==",
                                                                "👩‍💻",
                                                                "水火",
                                                                "a\u0323\u0308",
                                                                "aaaaaaaaaaaaaaaaaaaaaaaa"});
  return joined(
      rc::gen::container<std::vector<std::string>>(rc::gen::oneOf(word, random_character())));
}

// Any bytes, broken sequences likely.
inline rc::Gen<std::string> random_bytes() {
  const auto byte = rc::gen::map(rc::gen::arbitrary<unsigned char>(), [](unsigned char b) {
    return std::string(1, static_cast<char>(b));
  });
  return joined(
      rc::gen::container<std::vector<std::string>>(rc::gen::oneOf(byte, random_character())));
}

inline std::string nfc(std::string_view text) {
  std::string out;
  append_nfc(text, out);
  return out;
}

}  // namespace lily
