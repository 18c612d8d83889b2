// The bytes of an image's header, written and read with every claim checked. Little end first throughout.
//   0 magic[8]   8 version u32   12 layout u32   16 header bytes u64   24 checksum of the header with this field 0
//   32 file bytes   40 data start   48 manifest   56 source   64 tensors   72 blocks   80 blocks done   88 zero
//   96 tensor table: name length u16, name, bits i32, rows i64, cols i64, offset u64, bytes u64; then the block checksums
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "weights/hash.h"
#include "weights/image.h"
#include "weights/json.h"

namespace lily {
namespace {

constexpr std::string_view kMagic = "LILYIMG\n";
constexpr std::size_t kFixedBytes = 96;
constexpr std::size_t kChecksumAt = 24;
constexpr std::int64_t kMaxRows = std::int64_t{1} << 31;
constexpr std::int64_t kMaxCols = 1 << 20;

class ByteWriter {
 public:
  template <typename T>
  void put(T value) {
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), first, first + sizeof value);
  }
  void put_text(std::string_view text) {
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), first, first + text.size());
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Reads past the end give zeros and leave failed() true.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <typename T>
  T get() {
    T value{};
    if (take(sizeof value)) std::memcpy(&value, bytes_.data() + at_ - sizeof value, sizeof value);
    return value;
  }
  std::string text(std::size_t size) {
    if (!take(size)) return {};
    return {reinterpret_cast<const char*>(bytes_.data()) + at_ - size, size};
  }
  bool failed() const { return failed_; }
  std::size_t left() const { return bytes_.size() - at_; }

 private:
  bool take(std::size_t size) {
    failed_ = failed_ || size > left();
    if (!failed_) at_ += size;
    return !failed_;
  }
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

void put_fixed(ByteWriter& out, const ImageHeader& header) {
  out.put_text(kMagic);
  out.put(kImageVersion);
  out.put(static_cast<std::uint32_t>(header.layout));
  out.put(std::uint64_t{0});  // Header bytes and checksum, known at the end.
  out.put(std::uint64_t{0});
  for (const std::uint64_t field : {header.file_bytes(), header.data_start, header.manifest, header.source,
                                    std::uint64_t{header.tensors.size()}, std::uint64_t{header.block_sums.size()},
                                    header.blocks_done, std::uint64_t{0}}) {
    out.put(field);
  }
}

class HeaderParser {
 public:
  HeaderParser(std::span<const std::byte> bytes, const ImageRead& read) : bytes_(bytes), read_(read) {}

  Result<ImageHeader> parse() {
    LILY_TRY(const std::size_t size, header_size());
    LILY_RETURN_IF_ERROR(check_sum(size));
    ByteReader in(bytes_.first(size));
    in.text(32);
    ImageHeader header;
    LILY_RETURN_IF_ERROR(fixed_fields(in, header));
    for (std::uint64_t i = 0; i < n_tensors_; ++i) {
      LILY_TRY(auto tensor, next_tensor(in, header));
      header.tensors.push_back(std::move(tensor));
    }
    for (auto& sum : header.block_sums) sum = in.get<std::uint64_t>();
    if (in.failed() || in.left() != 0) return fault("the table does not end where the header does");
    if (!header.complete() && !read_.unfinished) return fault("the image is unfinished");
    return header;
  }

 private:
  Error fault(const std::string& what, ErrorCode code = ErrorCode::kCorrupt) const {
    return {code, fmt::format("{}: {}", read_.file, what)};
  }

  // Magic, version, and a length that the file can have.
  Result<std::size_t> header_size() const {
    if (bytes_.size() < kFixedBytes || std::memcmp(bytes_.data(), kMagic.data(), kMagic.size()) != 0) {
      return fault("not a weight image");
    }
    ByteReader in(bytes_);
    in.text(kMagic.size());
    const auto version = in.get<std::uint32_t>();
    if (version != kImageVersion) {
      return fault(fmt::format("image format {}, this Lily reads {}", version, kImageVersion), ErrorCode::kUnsupported);
    }
    in.get<std::uint32_t>();
    const auto size = in.get<std::uint64_t>();
    if (size < kFixedBytes || size > kMaxImageHeader || size > bytes_.size()) {
      return fault(fmt::format("header of {} bytes in a file of {}", size, read_.file_bytes));
    }
    return static_cast<std::size_t>(size);
  }

  Result<void> check_sum(std::size_t size) const {
    std::vector<std::byte> copy(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(size));
    std::uint64_t stored = 0;
    std::memcpy(&stored, copy.data() + kChecksumAt, sizeof stored);
    std::memset(copy.data() + kChecksumAt, 0, sizeof stored);
    if (checksum(copy) == stored) return {};
    return fault("the header's checksum is wrong: the file is damaged");
  }

  Result<void> fixed_fields(ByteReader& in, ImageHeader& header) {
    std::memcpy(&header.layout, bytes_.data() + 12, sizeof header.layout);
    if (header.layout != WeightLayout::kRowMajor && header.layout != WeightLayout::kInterleaved16) {
      return fault(fmt::format("unknown layout {}", static_cast<std::uint32_t>(header.layout)));
    }
    const auto file_bytes = in.get<std::uint64_t>();
    header.data_start = in.get<std::uint64_t>();
    header.manifest = in.get<std::uint64_t>();
    header.source = in.get<std::uint64_t>();
    n_tensors_ = in.get<std::uint64_t>();
    const auto n_blocks = in.get<std::uint64_t>();
    header.blocks_done = in.get<std::uint64_t>();
    in.get<std::uint64_t>();
    if (header.data_start > std::min<std::uint64_t>(file_bytes, kMaxImageHeader) ||
        header.data_start % kImageAlign || file_bytes % kImageAlign) {
      return fault(fmt::format("data from byte {} of {}", header.data_start, file_bytes));
    }
    header.data_bytes = file_bytes - header.data_start;
    if (file_bytes != read_.file_bytes && !read_.unfinished) {
      return fault(fmt::format("{} bytes, expected {}: the file is truncated", read_.file_bytes, file_bytes));
    }
    if (n_blocks != (header.data_bytes + kImageBlock - 1) / kImageBlock || n_blocks > in.left() / 8 ||
        n_tensors_ > in.left() || header.blocks_done > n_blocks) {
      return fault(fmt::format("{} tensors and {} of {} blocks for {} bytes", n_tensors_, header.blocks_done, n_blocks,
                               header.data_bytes));
    }
    header.block_sums.resize(n_blocks);
    return {};
  }

  Result<ImageTensor> next_tensor(ByteReader& in, const ImageHeader& header) const {
    ImageTensor t;
    t.name = in.text(in.get<std::uint16_t>());
    t.bits = in.get<std::int32_t>();
    t.rows = in.get<std::int64_t>();
    t.cols = in.get<std::int64_t>();
    t.offset = in.get<std::uint64_t>();
    t.bytes = in.get<std::uint64_t>();
    const bool shaped = t.rows > 0 && t.rows < kMaxRows && t.cols > 0 && t.cols <= kMaxCols;
    const bool quantised = (t.bits == 4 || t.bits == 8) && t.cols % kQuantGroup == 0;
    if (in.failed() || !shaped || (t.bits != 0 && !quantised) || t.bytes != extent(t, header.layout) ||
        t.offset % kSectionAlign || t.offset > header.data_bytes || t.bytes > header.data_bytes - t.offset) {
      return fault(fmt::format("tensor '{}': {} x {} of {} bits at {}, {} bytes", printable(t.name), t.rows, t.cols, t.bits,
                               t.offset, t.bytes));
    }
    return t;
  }

  static std::uint64_t extent(const ImageTensor& t, WeightLayout layout) {
    if (t.bits == 0) return static_cast<std::uint64_t>(t.rows) * static_cast<std::uint64_t>(t.cols) * sizeof(float);
    return quant_extent(layout, {t.rows, t.cols, t.bits}).bytes;
  }

  std::span<const std::byte> bytes_;
  const ImageRead& read_;
  std::uint64_t n_tensors_ = 0;
};

}  // namespace

std::vector<std::byte> image_header_bytes(const ImageHeader& header) {
  ByteWriter out;
  put_fixed(out, header);
  for (const auto& t : header.tensors) {
    out.put(static_cast<std::uint16_t>(t.name.size()));
    out.put_text(t.name);
    out.put(static_cast<std::int32_t>(t.bits));
    out.put(t.rows);
    out.put(t.cols);
    out.put(t.offset);
    out.put(t.bytes);
  }
  for (const auto sum : header.block_sums) out.put(sum);
  auto bytes = out.take();
  const std::uint64_t size = bytes.size();
  std::memcpy(bytes.data() + 16, &size, sizeof size);
  const std::uint64_t sum = checksum(bytes);
  std::memcpy(bytes.data() + kChecksumAt, &sum, sizeof sum);
  if (bytes.size() < header.data_start) bytes.resize(header.data_start);
  return bytes;
}

Result<ImageHeader> parse_image_header(std::span<const std::byte> bytes, const ImageRead& read) {
  return HeaderParser(bytes, read).parse();
}

}  // namespace lily
