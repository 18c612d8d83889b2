// One safetensors file: the header read within bounds, every claim of it checked against the file, tensors handed out as
// byte spans. The spans have no alignment: MLX pads nothing (docs/CHECKPOINTS.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace lily {

inline constexpr std::uint64_t kMaxHeaderBytes = 32u << 20;
inline constexpr std::size_t kMaxTensorDims = 8;

struct SourceTensor {
  std::string name;
  std::string dtype;                // As written: "BF16", "U32", ...
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0; // Bytes from the start of the file.

  std::uint64_t bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<SourceTensor> tensors;  // In the order of their bytes.
  std::uint64_t header_bytes = 0;     // Length prefix and JSON: where the data begin.
};

// `bytes` is the file, or its beginning up to the end of the header; file_bytes its whole size; `file` names it in messages.
// kCorrupt: a length out of bounds, JSON that is none, a repeated name, offsets that overlap, leave a hole, run past the end
// or contradict dtype and shape. kUnsupported: another format, by name.
Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                                                   const std::string& file);

// "BF16 [8192, 4, 1]"
std::string described(const SourceTensor& tensor);
std::string shape_text(std::span<const std::int64_t> shape);

// A mapped file with its header.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const Path& path);

  const std::vector<SourceTensor>& tensors() const { return header_.tensors; }
  std::span<const std::byte> bytes_of(const SourceTensor& tensor) const {
    return file_.bytes().subspan(tensor.begin, tensor.bytes());
  }
  std::span<const std::byte> header() const { return file_.bytes().first(header_.header_bytes); }
  std::uint64_t size() const { return file_.bytes().size(); }
  const Path& path() const { return file_.path(); }
  std::string name() const { return path().filename().string(); }
  // Lets the system forget pages that were read for the last time.
  void drop(std::span<const std::byte> part) const {
    file_.drop(static_cast<std::size_t>(part.data() - file_.bytes().data()), part.size());
  }

 private:
  SafetensorsFile(MappedFile file, SafetensorsHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}
  MappedFile file_;
  SafetensorsHeader header_;
};

}  // namespace lily
