// Changes to a good tokenizer.json: any bytes as a JSON merge patch (RFC 7396) {"file": ..., "config": ...}. What is wrong in one
// place only is met at the check of that place, which random bytes, wrong in many, hardly ever reach.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tests/text/small_tokenizer.h"
#include "text/tokenizer_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto patch = nlohmann::json::parse(text, nullptr, false);
  if (!patch.is_object()) return 0;
  nlohmann::json both = {{"file", lily::small_tokenizer()}, {"config", nullptr}};
  both.merge_patch(patch);
  const auto write = [](const nlohmann::json& json) { return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); };
  const bool has_config = both.contains("config") && !both["config"].is_null();
  const auto file = lily::parse_tokenizer(both.contains("file") ? write(both["file"]) : "", has_config ? write(both["config"]) : "");
  if (!file) return 0;
  for (const auto& merge : file->merges) {
    if (file->vocab.bytes(merge.left).empty() || file->vocab.bytes(merge.right).empty()) std::abort();
    const auto made = std::string(file->vocab.bytes(merge.left)).append(file->vocab.bytes(merge.right));
    if (file->vocab.bytes(merge.result) != made) std::abort();
  }
  return 0;
}
