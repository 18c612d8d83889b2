// The header of a weight image. The checksum would stop almost every change, so it is made right before the header is read:
// whatever is accepted must keep its tensors inside the data.
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "weights/hash.h"
#include "weights/image.h"

namespace {

constexpr std::size_t kLengthAt = 16, kChecksumAt = 24, kFileBytesAt = 32, kFixedBytes = 96;

void make_checksum_right(std::vector<std::byte>& bytes) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data() + kLengthAt, 8);
  if (length < kFixedBytes || length > bytes.size()) return;
  std::memset(bytes.data() + kChecksumAt, 0, 8);
  const std::uint64_t sum = lily::checksum(std::span(bytes).first(length));
  std::memcpy(bytes.data() + kChecksumAt, &sum, 8);
}

// As a start reads a finished image, and as packing goes on with an unfinished one.
void read_both_ways(const std::vector<std::byte>& bytes, std::uint64_t file_bytes) {
  for (const bool unfinished : {false, true}) {
    const auto header = lily::parse_image_header(bytes, {file_bytes, "fuzz.lilyimage", unfinished});
    if (!header.has_value()) continue;
    LILY_CHECK(unfinished || header->data_start + header->data_bytes == file_bytes);
    LILY_CHECK(unfinished || header->complete());
    for (const auto& t : header->tensors) {
      LILY_CHECK(t.offset % lily::kSectionAlign == 0 && t.offset + t.bytes <= header->data_bytes && t.bytes > 0);
    }
    const auto written = lily::image_header_bytes(*header);
    if (written.size() != header->data_start) continue;  // More padding than Lily itself writes.
    const auto again = lily::parse_image_header(written, {file_bytes, "fuzz.lilyimage", unfinished});
    LILY_CHECK(again.has_value() && lily::image_difference(*again, *header).empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  std::vector<std::byte> bytes(input.begin(), input.end());
  read_both_ways(bytes, size);
  if (size < kFixedBytes) return 0;
  make_checksum_right(bytes);
  std::uint64_t file_bytes = 0;
  std::memcpy(&file_bytes, bytes.data() + kFileBytesAt, 8);
  read_both_ways(bytes, file_bytes);
  return 0;
}
