// config.json, and after a zero byte generation_config.json: an accepted configuration has sizes within the kernels' limits,
// and its manifest can be listed.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "weights/config.h"
#include "weights/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto cut = text.find('\0');
  const auto generation = cut == std::string_view::npos ? std::string_view() : text.substr(cut + 1);
  const auto config = lily::parse_config(text.substr(0, cut), generation);
  if (!config.has_value()) return 0;
  const auto& spec = config->spec;
  LILY_CHECK(spec.hidden % 64 == 0 && spec.hidden > 0 && spec.n_chosen <= spec.n_experts);
  LILY_CHECK(static_cast<int>(spec.layer_kinds.size()) == spec.n_layers && !spec.end_tokens.empty());
  for (const auto& entry : lily::manifest(*config)) LILY_CHECK(entry.rows > 0 && entry.cols > 0);
  return 0;
}
