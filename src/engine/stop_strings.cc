// Matching by suffix: the answer is short beside the work of making it, so plain search is enough.
#include "engine/stop_strings.h"

#include <algorithm>
#include <utility>

namespace lily {
namespace {

// Length of the longest proper prefix of `stop` that `text` ends with.
std::size_t pending(std::string_view text, std::string_view stop) {
  for (std::size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n) {
    if (text.substr(text.size() - n) == stop.substr(0, n)) return n;
  }
  return 0;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& s) { return s.empty(); });
}

std::string StopStrings::push(std::string_view text) {
  if (matched_) return {};
  held_ += text;
  std::size_t first_end = std::string::npos, begin = 0;
  const std::string* which = nullptr;
  for (const auto& stop : stops_) {
    const auto at = held_.find(stop);
    if (at == std::string::npos) continue;
    const auto end = at + stop.size();
    if (end < first_end || (end == first_end && at < begin)) first_end = end, begin = at, which = &stop;
  }
  if (which) {
    matched_ = *which;
    std::string shown = held_.substr(0, begin);
    held_.clear();
    return shown;
  }
  std::size_t keep = 0;
  for (const auto& stop : stops_) keep = std::max(keep, pending(held_, stop));
  std::string shown = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return shown;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

}  // namespace lily
