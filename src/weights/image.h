// The weight image: all tensors of a model in one file, aligned and in the layout that a backend reads, mapped as it is.
//   header (this file) | tensor table | block checksums | padding to kImageAlign | data | padding to kImageAlign
// The header carries what a start must know to trust the rest: format, size, where it came from. docs/CHECKPOINTS.md has the
// bytes and says which check notices which damage.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "spec/layout.h"
#include "weights/manifest.h"

namespace lily {

inline constexpr std::uint32_t kImageVersion = 1;
inline constexpr std::size_t kImageAlign = 16384;        // A page on every system that maps it without copying.
inline constexpr std::size_t kImageBlock = 16u << 20;    // Bytes under one checksum, and the unit of packing.
inline constexpr std::size_t kMaxImageHeader = 64u << 20;

struct ImageTensor {
  std::string name;
  std::int64_t rows = 0, cols = 0;
  int bits = 0;                          // 4, 8, or 0 for f32
  std::uint64_t offset = 0, bytes = 0;   // From the start of the data.
};

struct ImageHeader {
  WeightLayout layout = WeightLayout::kRowMajor;
  std::uint64_t manifest = 0;            // manifest_fingerprint
  std::uint64_t source = 0;              // Checkpoint::fingerprint
  std::uint64_t data_start = 0, data_bytes = 0;
  std::vector<ImageTensor> tensors;
  std::vector<std::uint64_t> block_sums; // One for each kImageBlock of data.
  std::uint64_t blocks_done = 0;         // All of them, except in the file of an unfinished packing.

  std::uint64_t file_bytes() const { return data_start + data_bytes; }
  bool complete() const { return blocks_done == block_sums.size(); }
};

// "row_major" or "interleaved16".
std::string_view layout_name(WeightLayout layout);

// Where each tensor will lie; no block is done.
ImageHeader plan_image(const std::vector<ManifestEntry>& entries, WeightLayout layout, std::uint64_t source);

// Why an image that can be read is not the one that is wanted; empty: it is.
std::string image_difference(const ImageHeader& found, const ImageHeader& wanted);

// header.data_start bytes: the file up to its data.
std::vector<std::byte> image_header_bytes(const ImageHeader& header);

// `bytes` is the file or its beginning, file_bytes its whole size, `file` names it. kCorrupt or kUnsupported with what was
// found. An unfinished image is refused unless `unfinished`.
struct ImageRead {
  std::uint64_t file_bytes;
  std::string file;
  bool unfinished = false;
};
Result<ImageHeader> parse_image_header(std::span<const std::byte> bytes, const ImageRead& read);

struct TensorView {
  const std::byte* data;  // Aligned to kSectionAlign. f32 [rows, cols] or a matrix as spec/layout.h says.
  std::int64_t rows, cols;
  int bits;               // 0 = f32
  std::size_t bytes;
};

class WeightImage {
 public:
  WeightImage() = default;
  // Maps a file; checks its header, not its data.
  static Result<WeightImage> map(const Path& path);
  // An image in memory: `data` lives as long as `owner`.
  WeightImage(ImageHeader header, std::span<const std::byte> data, std::shared_ptr<void> owner);

  const TensorView* find(std::string_view name) const;
  // All data, starting at a multiple of kImageAlign; every TensorView points into it.
  std::span<const std::byte> bytes() const { return data_; }
  std::shared_ptr<void> owner() const { return owner_; }
  const ImageHeader& header() const { return header_; }

 private:
  ImageHeader header_;
  std::span<const std::byte> data_;
  std::shared_ptr<void> owner_;
  std::map<std::string, TensorView, std::less<>> views_;
};

}  // namespace lily
