// What the weight tests share: a folder that removes itself, a tiny checkpoint of the family that a test can spoil before it
// is written, and plain decoders of both layouts, written from spec/layout.h and the format's description alone.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "spec/layout.h"
#include "weights/checkpoint.h"
#include "weights/image.h"
#include "weights/manifest.h"

namespace lily::test {

class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const Path& path() const { return path_; }

 private:
  Path path_;
};

inline Path pocket() { return Path(LILY_SOURCE_DIR) / "models/pocket"; }

void write_text(const Path& path, std::string_view text);
std::string read_text(const Path& path);

struct TinyTensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

// A model of four layers and 64 hidden, in two shards. Change any part, then write it.
struct TinyCheckpoint {
  nlohmann::ordered_json config, generation;
  std::map<std::string, TinyTensor> shards[2];
  nlohmann::ordered_json index;  // Made by the constructor; a test may contradict it.

  explicit TinyCheckpoint(std::uint64_t seed = 1);
  TinyTensor& tensor(const std::string& name);
  void remove(const std::string& name);  // From its shard and the index.
  void add(const std::string& name, TinyTensor tensor);
  void write(const Path& folder) const;
};

// The bytes of a safetensors file with these tensors in the map's order.
std::string safetensors_bytes(const std::map<std::string, TinyTensor>& tensors);
// The same around a header that the test wrote.
std::string safetensors_with_header(std::string_view header, std::string_view data);

// A quantised module of a checkpoint, experts flattened into rows.
struct SourceMatrix {
  std::span<const std::byte> codes, scales, biases;
  std::int64_t cols;
  int bits;

  SourceMatrix(const Checkpoint& checkpoint, const ManifestEntry& entry);
  double weight(std::int64_t row, std::int64_t col) const;
};
// Weight (row, col) of a matrix in an image.
double image_weight(const TensorView& view, WeightLayout layout, std::int64_t row, std::int64_t col);

}  // namespace lily::test
