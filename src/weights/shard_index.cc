// Reading the index; see shard_index.h.
#include "weights/shard_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "weights/json.h"

namespace lily {
namespace {

using Kind = JsonValue::Kind;

constexpr std::string_view kExtension = ".safetensors";

Result<std::set<std::string>> shard_names(const JsonValue& map) {
  std::set<std::string> names;
  for (const auto& entry : map.members) {
    if (!entry.value.is(Kind::kString) || !is_shard_name(entry.value.text)) {
      return Error{ErrorCode::kCorrupt,
                   fmt::format("{}: weight_map['{}']: found {}, expected the plain name of a .safetensors file in the "
                               "same folder",
                               kIndexName, printable(entry.key), entry.value.shown())};
    }
    names.insert(entry.value.text);
  }
  if (names.empty() || names.size() > kMaxShards) {
    return Error{ErrorCode::kCorrupt,
                 fmt::format("{}: weight_map names {} shards, expected 1 to {}", kIndexName, names.size(), kMaxShards)};
  }
  return names;
}

}  // namespace

bool is_shard_name(std::string_view name) {
  const bool clean = name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
  return clean && name.size() > kExtension.size() && name.size() <= 255 && name.front() != '.' &&
         name.substr(name.size() - kExtension.size()) == kExtension;
}

Result<ShardIndex> parse_index(std::string_view json) {
  LILY_TRY(const JsonValue root, parse_json_tree(json, kIndexName));
  const JsonValue* map = root.find("weight_map");
  if (!map || !map->is(Kind::kObject)) {
    return Error{ErrorCode::kCorrupt, fmt::format("{}: weight_map: found {}, expected an object", kIndexName,
                                                  map ? map->shown() : "nothing")};
  }
  LILY_TRY(const auto names, shard_names(*map));
  ShardIndex index;
  index.shards.assign(names.begin(), names.end());
  for (const auto& entry : map->members) {
    const auto shard = std::lower_bound(index.shards.begin(), index.shards.end(), entry.value.text);
    index.home[entry.key] = static_cast<std::size_t>(shard - index.shards.begin());
  }
  return index;
}

}  // namespace lily
