// A folder of safetensors files as one set of tensors: the shards that the index names, and which tensor lies where.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "weights/safetensors.h"
#include "weights/shard_index.h"

namespace lily {

class Checkpoint {
 public:
  // Opens every shard and reads its header. Names a missing shard, and a tensor that lies elsewhere than the index says.
  static Result<Checkpoint> open(const Path& folder);

  struct Found {
    const SafetensorsFile* file = nullptr;
    const SourceTensor* tensor = nullptr;  // null: there is none of that name
    explicit operator bool() const { return tensor != nullptr; }
    std::span<const std::byte> bytes() const { return file->bytes_of(*tensor); }
  };
  Found find(const std::string& name) const;

  const Path& folder() const { return folder_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }
  // safetensors files of the folder that the index does not name, such as a separate draft head.
  const std::vector<std::string>& unused_files() const { return unused_files_; }
  std::uint64_t file_bytes() const;
  // xxh3 of names, sizes, modification times and headers: changes whenever a source file was replaced or touched.
  Result<std::uint64_t> fingerprint() const;

 private:
  struct Place {
    std::size_t file, tensor;
  };
  Checkpoint() = default;
  Result<void> add_shard(const std::string& name, const ShardIndex* index);
  Result<void> check_index(const ShardIndex& index) const;
  void list_unused(const ShardIndex& index);

  Path folder_;
  std::vector<SafetensorsFile> files_;
  std::vector<std::string> unused_files_;
  std::map<std::string, Place> places_;
};

}  // namespace lily
