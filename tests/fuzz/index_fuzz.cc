// The shard index: accepted shard names stay inside the folder, and every tensor has a home among them.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/file.h"
#include "weights/shard_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto index = lily::parse_index({reinterpret_cast<const char*>(data), size});
  if (!index.has_value()) return 0;
  for (const auto& shard : index->shards) {
    LILY_CHECK(lily::Path(shard).filename() == shard && shard != ".." && !shard.empty());
  }
  for (const auto& [tensor, shard] : index->home) LILY_CHECK(shard < index->shards.size());
  return 0;
}
