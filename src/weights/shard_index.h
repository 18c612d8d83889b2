// model.safetensors.index.json: which shard holds which tensor.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lily {

inline constexpr const char* kIndexName = "model.safetensors.index.json";
inline constexpr std::size_t kMaxIndexBytes = 64u << 20;
inline constexpr std::size_t kMaxShards = 1024;

struct ShardIndex {
  std::vector<std::string> shards;          // File names, sorted, each plain: no folders in it.
  std::map<std::string, std::size_t> home;  // tensor -> its shard
};

// A name of the folder itself: "model-00001-of-00004.safetensors", never "../x", "/x" or "a/b".
bool is_shard_name(std::string_view name);

// kCorrupt: not an index, or a shard's name that leaves the folder.
Result<ShardIndex> parse_index(std::string_view json);

}  // namespace lily
