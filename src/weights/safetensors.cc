// The header of a safetensors file; see safetensors.h. Format: eight bytes of length, little end first, JSON, data.
#include "weights/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "weights/config.h"
#include "weights/json.h"

namespace lily {
namespace {

using Kind = JsonValue::Kind;

constexpr std::size_t kLengthBytes = 8;

struct DtypeSize {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr DtypeSize kDtypes[] = {{"BF16", 2}, {"U32", 4},     {"F32", 4},     {"F16", 2}, {"U8", 1},
                                 {"I8", 1},   {"U16", 2},     {"I16", 2},     {"I32", 4}, {"U64", 8},
                                 {"I64", 8},  {"F64", 8},     {"BOOL", 1},    {"C64", 8}, {"F8_E4M3", 1},
                                 {"F8_E5M2", 1}, {"F8_E8M0", 1}};

std::uint64_t dtype_bytes(std::string_view name) {
  for (const auto& dtype : kDtypes) {
    if (dtype.name == name) return dtype.bytes;
  }
  return 0;
}

bool begins(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

// Files that people bring under the name of a checkpoint.
Result<void> check_magic(std::span<const std::byte> bytes, const std::string& file) {
  if (begins(bytes, "GGUF")) {
    return Error{ErrorCode::kUnsupported, fmt::format("{}: found a GGUF file; {}", file, kWhatToGet)};
  }
  if (begins(bytes, "version https://git-lfs")) {
    return Error{ErrorCode::kCorrupt,
                 fmt::format("{}: found a Git LFS pointer instead of the file itself; fetch it with 'git lfs pull'", file)};
  }
  if (begins(bytes, "PK\x03\x04") || begins(bytes, "\x80\x02")) {
    return Error{ErrorCode::kUnsupported, fmt::format("{}: found a PyTorch file; {}", file, kWhatToGet)};
  }
  return {};
}

// The JSON between length and data.
Result<std::string_view> header_text(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                                     const std::string& file) {
  if (bytes.size() < kLengthBytes) {
    return Error{ErrorCode::kCorrupt,
                 fmt::format("{}: {} bytes, too short for a safetensors header; the download may be incomplete", file,
                             file_bytes)};
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length == 0 || length > kMaxHeaderBytes) {
    return Error{ErrorCode::kCorrupt, fmt::format("{}: header of {} bytes, expected 1 to {}", file, length,
                                                  kMaxHeaderBytes)};
  }
  if (length > bytes.size() - kLengthBytes) {
    return Error{ErrorCode::kCorrupt,
                 fmt::format("{}: header of {} bytes in a file of {}; the download may be incomplete", file, length,
                             file_bytes)};
  }
  return std::string_view(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
}

// dtype size times the dims, or nothing when it does not fit 63 bits.
std::optional<std::uint64_t> shape_bytes(std::span<const std::int64_t> shape, std::uint64_t element) {
  std::uint64_t total = element;
  for (const auto dim : shape) {
    const auto d = static_cast<std::uint64_t>(dim);
    if (d != 0 && total > (std::uint64_t{1} << 62) / d) return std::nullopt;
    total *= d;
  }
  return total;
}

// A list of whole numbers from 0 up.
std::optional<std::vector<std::int64_t>> whole_numbers(const JsonValue* value, std::size_t limit) {
  if (!value || !value->is(Kind::kArray) || value->items.size() > limit) return std::nullopt;
  std::vector<std::int64_t> out;
  for (const auto& item : value->items) {
    if (!item.is(Kind::kInteger) || item.integer < 0) return std::nullopt;
    out.push_back(item.integer);
  }
  return out;
}

class HeaderReader {
 public:
  HeaderReader(const std::string& file, std::uint64_t data_start, std::uint64_t file_bytes)
      : file_(file), data_start_(data_start), data_bytes_(file_bytes - data_start) {}

  Result<SourceTensor> tensor(const JsonMember& member) const {
    const auto name = printable(member.key);
    const JsonValue* dtype = member.value.find("dtype");
    const auto shape = whole_numbers(member.value.find("shape"), kMaxTensorDims);
    const auto offsets = whole_numbers(member.value.find("data_offsets"), 2);
    if (!dtype || !dtype->is(Kind::kString) || !shape || !offsets || offsets->size() != 2) {
      return fault(name, "expected dtype, shape and data_offsets with two whole numbers");
    }
    const auto begin = static_cast<std::uint64_t>((*offsets)[0]), end = static_cast<std::uint64_t>((*offsets)[1]);
    if (begin > end) return fault(name, fmt::format("data_offsets [{}, {}] run backwards", begin, end));
    if (end > data_bytes_) {
      return fault(name, fmt::format("data end at byte {}, the file at {}: it is truncated, the download may be "
                                     "incomplete",
                                     data_start_ + end, data_start_ + data_bytes_));
    }
    SourceTensor out{member.key, dtype->text, *shape, data_start_ + begin, data_start_ + end};
    LILY_RETURN_IF_ERROR(check_size(name, out));
    return out;
  }

  // Sorted by place: each tensor must begin where the one before it ends, and the last must end with the file.
  Result<void> check_places(const std::vector<SourceTensor>& tensors) const {
    std::uint64_t at = data_start_;
    std::string before = "the header";
    for (const auto& t : tensors) {
      if (t.begin < at) return fault(printable(t.name), fmt::format("overlaps {}", before));
      if (t.begin > at) return fault(printable(t.name), fmt::format("{} bytes of hole before it", t.begin - at));
      at = t.end;
      before = fmt::format("tensor '{}'", printable(t.name));
    }
    if (at != data_start_ + data_bytes_) {
      return Error{ErrorCode::kCorrupt, fmt::format("{}: {} bytes after the last tensor", file_,
                                                    data_start_ + data_bytes_ - at)};
    }
    return {};
  }

 private:
  Error fault(const std::string& name, const std::string& what) const {
    return {ErrorCode::kCorrupt, fmt::format("{}: tensor '{}': {}", file_, name, what)};
  }

  Result<void> check_size(const std::string& name, const SourceTensor& t) const {
    const auto element = dtype_bytes(t.dtype);
    if (element == 0) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("{}: tensor '{}': unknown dtype '{}'", file_, name, printable(t.dtype, 20))};
    }
    const auto bytes = shape_bytes(t.shape, element);
    if (!bytes || *bytes != t.bytes()) {
      return fault(name, fmt::format("{} bytes, expected {} for {}", t.bytes(),
                                     bytes ? std::to_string(*bytes) : "more than 2^62", described(t)));
    }
    return {};
  }

  const std::string& file_;
  std::uint64_t data_start_, data_bytes_;
};

}  // namespace

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

std::string described(const SourceTensor& tensor) {
  return printable(tensor.dtype, 20) + " " + shape_text(tensor.shape);
}

Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                                                   const std::string& file) {
  LILY_RETURN_IF_ERROR(check_magic(bytes, file));
  LILY_TRY(const auto text, header_text(bytes, file_bytes, file));
  LILY_TRY(const JsonValue root, parse_json_tree(text, file + ": header"));
  if (!root.is(Kind::kObject)) {
    return Error{ErrorCode::kCorrupt, fmt::format("{}: header: found {}, expected an object", file, root.shown())};
  }
  SafetensorsHeader header;
  header.header_bytes = kLengthBytes + text.size();
  const HeaderReader reader(file, header.header_bytes, file_bytes);
  for (const auto& member : root.members) {
    if (member.key == "__metadata__") continue;
    LILY_TRY(auto tensor, reader.tensor(member));
    header.tensors.push_back(std::move(tensor));
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  LILY_RETURN_IF_ERROR(reader.check_places(header.tensors));
  return header;
}

Result<SafetensorsFile> SafetensorsFile::open(const Path& path) {
  LILY_TRY(auto file, MappedFile::open(path));
  LILY_TRY(auto header, parse_safetensors_header(file.bytes(), file.bytes().size(), path.filename().string()));
  return SafetensorsFile(std::move(file), std::move(header));
}

}  // namespace lily
