// Shards and what lies in them; see checkpoint.h.
#include "weights/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "weights/config.h"
#include "weights/hash.h"
#include "weights/json.h"

namespace lily {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleName = "model.safetensors";

// The index, or the single file as an index without entries.
Result<ShardIndex> index_of(const Path& folder) {
  auto text = read_file(folder / kIndexName, kMaxIndexBytes);
  if (text.has_value()) return parse_index(*text);
  if (text.error().code != ErrorCode::kNotFound) return std::move(text).error();
  std::error_code code;
  if (fs::exists(folder / kSingleName, code)) return ShardIndex{{kSingleName}, {}};
  return Error{ErrorCode::kNotFound, fmt::format("{}: neither {} nor {} in this folder; {}", folder.string(), kIndexName,
                                                 kSingleName, kWhatToGet)};
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const Path& folder) {
  LILY_TRY(const ShardIndex index, index_of(folder));
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  const bool single = index.home.empty();
  for (const auto& name : index.shards) {
    LILY_RETURN_IF_ERROR(checkpoint.add_shard(name, single ? nullptr : &index));
  }
  if (!single) LILY_RETURN_IF_ERROR(checkpoint.check_index(index));
  checkpoint.list_unused(index);
  return checkpoint;
}

Result<void> Checkpoint::add_shard(const std::string& name, const ShardIndex* index) {
  auto opened = SafetensorsFile::open(folder_ / name);
  if (!opened.has_value() && opened.error().code == ErrorCode::kNotFound) {
    return Error{ErrorCode::kNotFound, fmt::format("{}: shard {} is missing, but {} names it; the download may be "
                                                   "incomplete",
                                                   folder_.string(), name, kIndexName)};
  }
  if (!opened.has_value()) return std::move(opened).error();
  const std::size_t file = files_.size();
  files_.push_back(std::move(*opened));
  for (std::size_t i = 0; i < files_[file].tensors().size(); ++i) {
    const auto& tensor = files_[file].tensors()[i];
    const auto home = index ? index->home.find(tensor.name) : std::map<std::string, std::size_t>::const_iterator();
    if (index && (home == index->home.end() || home->second != file)) {
      return Error{ErrorCode::kCorrupt,
                   fmt::format("{}: tensor '{}' lies in this file, but {} {}", name, printable(tensor.name), kIndexName,
                               home == index->home.end() ? "does not list it"
                                                         : "says " + index->shards[home->second])};
    }
    places_[tensor.name] = {file, i};
  }
  return {};
}

Result<void> Checkpoint::check_index(const ShardIndex& index) const {
  for (const auto& [name, shard] : index.home) {
    if (places_.count(name)) continue;
    return Error{ErrorCode::kCorrupt, fmt::format("{}: tensor '{}' is not in this file, but {} says so",
                                                  index.shards[shard], printable(name), kIndexName)};
  }
  return {};
}

void Checkpoint::list_unused(const ShardIndex& index) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder_, code)) {
    const auto name = entry.path().filename().string();
    const bool used = std::binary_search(index.shards.begin(), index.shards.end(), name);
    if (!used && is_shard_name(name)) unused_files_.push_back(name);
  }
  std::sort(unused_files_.begin(), unused_files_.end());
}

Checkpoint::Found Checkpoint::find(const std::string& name) const {
  const auto place = places_.find(name);
  if (place == places_.end()) return {};
  const auto& file = files_[place->second.file];
  return {&file, &file.tensors()[place->second.tensor]};
}

std::uint64_t Checkpoint::file_bytes() const {
  std::uint64_t total = 0;
  for (const auto& file : files_) total += file.size();
  return total;
}

Result<std::uint64_t> Checkpoint::fingerprint() const {
  Hasher hash;
  for (const auto& file : files_) {
    std::error_code code;
    const auto time = fs::last_write_time(file.path(), code);
    if (code) return system_error("reading the time of " + file.path().string(), code.value());
    hash.add(file.name());
    hash.add(file.size());
    hash.add(static_cast<std::uint64_t>(time.time_since_epoch().count()));
    hash.add(file.header());
  }
  return hash.value();
}

}  // namespace lily
