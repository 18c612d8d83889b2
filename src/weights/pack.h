// The data of an image, computed from a checkpoint: any range of it on demand, so that blocks can be made in any order, by
// any number of threads, and again after an interruption.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "weights/image.h"
#include "weights/manifest.h"

namespace lily {

class ImageSource {
 public:
  // The three must fit together (check_source, plan_image) and outlive this.
  ImageSource(const Checkpoint& checkpoint, const std::vector<ManifestEntry>& entries, const ImageHeader& header);

  // Bytes [offset, offset + out.size()) of the data. kNotFinite names a tensor with NaN or infinity. Thread-safe. Source
  // pages that were used are given back to the system.
  Result<void> fill(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  // A stretch of the data that is made in one go.
  struct Piece {
    std::size_t tensor;
    int part;                       // kRowMajor: 0 codes, 1 scales, 2 biases
    std::int64_t row_begin, row_end;
    std::uint64_t offset, bytes;    // In the data; padding behind the piece included.
  };
  struct Sources {
    Checkpoint::Found weight, scales, biases;  // An f32 tensor has only the first.
  };

  void add_pieces(std::size_t tensor);
  void add_rows(Piece piece, std::int64_t rows, std::size_t row_bytes, std::uint64_t padded);
  Result<void> make(const Piece& piece, std::span<std::byte> out) const;
  Result<void> make_floats(const Piece& piece, std::span<std::byte> out) const;
  Result<void> copy_rows(const Piece& piece, std::span<std::byte> out) const;
  Result<void> interleave_rows(const Piece& piece, std::span<std::byte> out) const;
  Result<void> check_finite(const Piece& piece, const Checkpoint::Found& sides, const char* suffix) const;

  const std::vector<ManifestEntry>& entries_;
  const ImageHeader& header_;
  std::vector<Sources> sources_;
  std::vector<Piece> pieces_;  // Tile the data in order.
};

// Makes all blocks from first_block on with some threads, in memory: data is header.data_bytes long.
Result<void> pack_into(const ImageSource& source, ImageHeader& header, std::span<std::byte> data,
                       const std::function<void(std::uint64_t done_bytes)>& progress);

// Makes blocks from header.blocks_done on and hands each to `write` in order, on the calling thread; its checksum is then in
// header.block_sums. Holds a few blocks at a time.
using BlockWriter = std::function<Result<void>(std::uint64_t block, std::span<const std::byte> bytes)>;
Result<void> pack_in_order(const ImageSource& source, ImageHeader& header, const BlockWriter& write);

}  // namespace lily
