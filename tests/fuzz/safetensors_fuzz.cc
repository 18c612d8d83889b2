// The header of a safetensors file: whatever is accepted must lie inside the file, in order, with the size of its shape.
#include <cstdint>
#include <span>

#include "base/check.h"
#include "weights/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto header = lily::parse_safetensors_header(bytes, size, "fuzz.safetensors");
  if (!header.has_value()) return 0;
  std::uint64_t at = header->header_bytes;
  for (const auto& tensor : header->tensors) {
    LILY_CHECK(tensor.begin == at && tensor.end >= at && tensor.end <= size);
    at = tensor.end;
  }
  LILY_CHECK(at == size);
  return 0;
}
