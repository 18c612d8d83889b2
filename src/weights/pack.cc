// Which bytes of the image come from where; see pack.h. The threads: pack_threads.cc.
#include "weights/pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "weights/floats.h"
#include "weights/interleave.h"

namespace lily {
namespace {

constexpr std::size_t kPieceBytes = 1u << 20;

struct RowRange {
  std::int64_t begin, end;
};

// The bytes of some rows of a matrix whose rows follow one another.
std::span<const std::byte> rows_of(const Checkpoint::Found& found, RowRange rows, std::size_t row_bytes) {
  return found.bytes().subspan(static_cast<std::size_t>(rows.begin) * row_bytes,
                               static_cast<std::size_t>(rows.end - rows.begin) * row_bytes);
}

}  // namespace

ImageSource::ImageSource(const Checkpoint& checkpoint, const std::vector<ManifestEntry>& entries,
                         const ImageHeader& header)
    : entries_(entries), header_(header) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& source = entries[i].source;
    if (entries[i].quantised()) {
      sources_.push_back({checkpoint.find(source + ".weight"), checkpoint.find(source + ".scales"),
                          checkpoint.find(source + ".biases")});
    } else {
      sources_.push_back({checkpoint.find(source), {}, {}});
    }
    LILY_CHECK(sources_.back().weight);
    add_pieces(i);
  }
  const std::uint64_t end = pieces_.back().offset + pieces_.back().bytes;
  pieces_.back().bytes += header.data_bytes - end;
}

void ImageSource::add_pieces(std::size_t tensor) {
  const auto& entry = entries_[tensor];
  const std::uint64_t at = header_.tensors[tensor].offset;
  const std::uint64_t padded = round_up(header_.tensors[tensor].bytes, kSectionAlign);
  const auto cols = static_cast<std::size_t>(entry.cols), bits = static_cast<std::size_t>(entry.bits);
  if (!entry.quantised()) {
    pieces_.push_back({tensor, 0, 0, entry.rows, at, padded});
  } else if (header_.layout == WeightLayout::kInterleaved16) {
    add_rows({tensor, 0, 0, 0, at, 0}, entry.rows, cols / kQuantGroup * record_bytes(entry.bits) / kBlockRows, padded);
  } else {
    const auto extent = quant_extent(header_.layout, {entry.rows, entry.cols, entry.bits});
    const std::size_t side_row = cols / kQuantGroup * 2;
    add_rows({tensor, 0, 0, 0, at, 0}, entry.rows, cols * bits / 8, extent.scales);
    add_rows({tensor, 1, 0, 0, at + extent.scales, 0}, entry.rows, side_row, extent.biases - extent.scales);
    add_rows({tensor, 2, 0, 0, at + extent.biases, 0}, entry.rows, side_row, padded - extent.biases);
  }
}

// Cuts one part of a tensor into pieces of whole blocks of rows; the last one takes what is left of `padded`.
void ImageSource::add_rows(Piece piece, std::int64_t rows, std::size_t row_bytes, std::uint64_t padded) {
  const auto blocks = std::max<std::size_t>(1, kPieceBytes / (row_bytes * kBlockRows));
  const auto step = static_cast<std::int64_t>(blocks) * kBlockRows;
  const std::uint64_t end = piece.offset + padded;
  for (std::int64_t row = 0; row < rows; row += step) {
    piece.row_begin = row;
    piece.row_end = std::min(rows, row + step);
    piece.bytes = piece.row_end == rows ? end - piece.offset : static_cast<std::uint64_t>(step) * row_bytes;
    pieces_.push_back(piece);
    piece.offset += piece.bytes;
  }
}

Result<void> ImageSource::fill(std::uint64_t offset, std::span<std::byte> out) const {
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                                [](std::uint64_t at, const Piece& p) { return at < p.offset + p.bytes; });
  std::vector<std::byte> scratch;
  while (!out.empty()) {
    const std::uint64_t skip = offset - piece->offset;
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), piece->bytes - skip));
    if (n == piece->bytes) {
      LILY_RETURN_IF_ERROR(make(*piece, out.first(n)));
    } else {  // The piece crosses the range's edge.
      scratch.resize(piece->bytes);
      LILY_RETURN_IF_ERROR(make(*piece, scratch));
      std::memcpy(out.data(), scratch.data() + skip, n);
    }
    out = out.subspan(n);
    offset += n;
    ++piece;
  }
  return {};
}

Result<void> ImageSource::make(const Piece& piece, std::span<std::byte> out) const {
  if (!entries_[piece.tensor].quantised()) return make_floats(piece, out);
  if (header_.layout == WeightLayout::kInterleaved16) return interleave_rows(piece, out);
  return copy_rows(piece, out);
}

Result<void> ImageSource::make_floats(const Piece& piece, std::span<std::byte> out) const {
  const auto& source = sources_[piece.tensor].weight;
  const auto values = to_floats(source.bytes(), source.tensor->dtype);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return Error{ErrorCode::kNotFinite, fmt::format("{}: tensor '{}': found NaN or infinity at index {}",
                                                    source.file->name(), source.tensor->name, i)};
  }
  const std::size_t bytes = values.size() * sizeof(float);
  std::memcpy(out.data(), values.data(), bytes);
  std::memset(out.data() + bytes, 0, out.size() - bytes);
  return {};
}

Result<void> ImageSource::check_finite(const Piece& piece, const Checkpoint::Found& sides, const char* suffix) const {
  const auto& entry = entries_[piece.tensor];
  const std::int64_t groups = entry.cols / kQuantGroup;
  const auto bytes = rows_of(sides, {piece.row_begin, piece.row_end}, static_cast<std::size_t>(groups) * 2);
  const std::int64_t bad = first_not_finite(bytes.data(), bytes.size() / 2);
  if (bad < 0) return {};
  return Error{ErrorCode::kNotFinite,
               fmt::format("{}: tensor '{}.{}': found NaN or infinity at row {}, group {}", sides.file->name(), entry.source,
                           suffix, piece.row_begin + bad / groups, bad % groups)};
}

Result<void> ImageSource::copy_rows(const Piece& piece, std::span<std::byte> out) const {
  const auto& s = sources_[piece.tensor];
  const auto& entry = entries_[piece.tensor];
  const auto cols = static_cast<std::size_t>(entry.cols);
  if (piece.part == 1) LILY_RETURN_IF_ERROR(check_finite(piece, s.scales, "scales"));
  if (piece.part == 2) LILY_RETURN_IF_ERROR(check_finite(piece, s.biases, "biases"));
  const std::size_t row_bytes =
      piece.part == 0 ? cols * static_cast<std::size_t>(entry.bits) / 8 : cols / kQuantGroup * 2;
  const auto& source = piece.part == 0 ? s.weight : piece.part == 1 ? s.scales : s.biases;
  const auto bytes = rows_of(source, {piece.row_begin, piece.row_end}, row_bytes);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  std::memset(out.data() + bytes.size(), 0, out.size() - bytes.size());
  source.file->drop(bytes);
  return {};
}

Result<void> ImageSource::interleave_rows(const Piece& piece, std::span<std::byte> out) const {
  const auto& s = sources_[piece.tensor];
  const auto& entry = entries_[piece.tensor];
  LILY_RETURN_IF_ERROR(check_finite(piece, s.scales, "scales"));
  LILY_RETURN_IF_ERROR(check_finite(piece, s.biases, "biases"));
  const auto cols = static_cast<std::size_t>(entry.cols);
  const std::size_t code_row = cols * static_cast<std::size_t>(entry.bits) / 8, side_row = cols / kQuantGroup * 2;
  const std::size_t block_bytes = cols / kQuantGroup * record_bytes(entry.bits);
  std::size_t done = 0;
  for (std::int64_t row = piece.row_begin; row < piece.row_end; row += kBlockRows) {
    const RowRange rows{row, std::min<std::int64_t>(row + kBlockRows, piece.row_end)};
    interleave_block({rows_of(s.weight, rows, code_row).data(), rows_of(s.scales, rows, side_row).data(),
                      rows_of(s.biases, rows, side_row).data(), static_cast<std::size_t>(rows.end - rows.begin), cols,
                      entry.bits},
                     out.data() + done);
    done += block_bytes;
  }
  std::memset(out.data() + done, 0, out.size() - done);
  const RowRange all{piece.row_begin, piece.row_end};
  s.weight.file->drop(rows_of(s.weight, all, code_row));
  s.scales.file->drop(rows_of(s.scales, all, side_row));
  s.biases.file->drop(rows_of(s.biases, all, side_row));
  return {};
}

}  // namespace lily
