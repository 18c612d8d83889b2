// Python's string trimming, which the chat template's bytes depend on.
#pragma once

#include <string_view>

namespace lily {

// str.strip(): without Python's white space at both ends (U+0009..D, 1C..20, 85, A0, 1680,
// 2000..200A, 2028, 2029, 202F, 205F, 3000; not U+200B, not U+FEFF). The result is a window of
// `text`, which should be valid UTF-8.
std::string_view strip(std::string_view text);

// lstrip("\n").
std::string_view strip_leading_newlines(std::string_view text);

}  // namespace lily
