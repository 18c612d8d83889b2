// Stop strings across token borders: text is let through only when no stop string can begin in what is held back.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lily {

class StopStrings {
 public:
  // Empty strings are ignored; the caller bounds their number and length.
  explicit StopStrings(std::vector<std::string> stops);

  // Takes more text; returns what is safe to show. After a match nothing more is returned.
  std::string push(std::string_view text);
  // The end of the answer: what was held back.
  std::string finish();
  // The stop string that matched: of those that complete first, the one that begins first.
  const std::optional<std::string>& matched() const { return matched_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::optional<std::string> matched_;
};

}  // namespace lily
