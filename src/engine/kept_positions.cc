// Choosing among borders, distances and the end.
#include "engine/kept_positions.h"

#include <algorithm>

namespace lily {
namespace {

constexpr int kNear = 16;
constexpr int kMostInside = 8;

}  // namespace

std::vector<int> kept_positions(const PromptShape& prompt) {
  const int end = prompt.n_tokens - 1;
  std::vector<int> borders;
  std::copy_if(prompt.borders.begin(), prompt.borders.end(), std::back_inserter(borders), [&](int b) { return b > 0 && b <= end; });
  std::vector<int> wanted;
  if (!borders.empty()) wanted.push_back(borders.front());
  for (std::size_t i = borders.size() - std::min<std::size_t>(2, borders.size()); i < borders.size(); ++i) wanted.push_back(borders[i]);
  const int every = std::max(prompt.every, end / kMostInside + 1);
  for (int at = every; at < end; at += every) wanted.push_back(at);
  if (end > 0) wanted.push_back(end);
  std::sort(wanted.begin(), wanted.end());
  const int last_border = borders.empty() ? 0 : borders.back();
  std::vector<int> out;
  for (const int at : wanted) {
    const int before = out.empty() ? -kNear : out.back();
    if (at - before >= kNear || (at == last_border && at != before)) out.push_back(at);
  }
  return out;
}

}  // namespace lily
