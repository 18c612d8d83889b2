// Planning and mapping images. The header's bytes: image_header.cc.
#include "weights/image.h"

#include <utility>

namespace lily {
namespace {

std::size_t tensor_bytes(const ManifestEntry& entry, WeightLayout layout) {
  if (!entry.quantised()) return static_cast<std::size_t>(entry.rows * entry.cols) * sizeof(float);
  return quant_extent(layout, {entry.rows, entry.cols, entry.bits}).bytes;
}

}  // namespace

std::string_view layout_name(WeightLayout layout) {
  return layout == WeightLayout::kRowMajor ? "row_major" : "interleaved16";
}

ImageHeader plan_image(const std::vector<ManifestEntry>& entries, WeightLayout layout, std::uint64_t source) {
  ImageHeader header;
  header.layout = layout;
  header.manifest = manifest_fingerprint(entries);
  header.source = source;
  std::size_t at = 0;
  for (const auto& entry : entries) {
    const std::size_t bytes = tensor_bytes(entry, layout);
    header.tensors.push_back({entry.name, entry.rows, entry.cols, entry.bits, at, bytes});
    at = round_up(at + bytes, kSectionAlign);
  }
  header.data_bytes = round_up(at, kImageAlign);
  header.block_sums.resize((header.data_bytes + kImageBlock - 1) / kImageBlock);
  header.data_start = round_up(image_header_bytes(header).size(), kImageAlign);
  return header;
}

std::string image_difference(const ImageHeader& found, const ImageHeader& wanted) {
  if (found.layout != wanted.layout) return "it has another layout";
  if (found.manifest != wanted.manifest) return "config.json now describes other tensors";
  if (found.source != wanted.source) return "the checkpoint's files have changed";
  return {};
}

WeightImage::WeightImage(ImageHeader header, std::span<const std::byte> data, std::shared_ptr<void> owner)
    : header_(std::move(header)), data_(data), owner_(std::move(owner)) {
  for (const auto& t : header_.tensors) {
    views_[t.name] = {data_.data() + t.offset, t.rows, t.cols, t.bits, static_cast<std::size_t>(t.bytes)};
  }
}

Result<WeightImage> WeightImage::map(const Path& path) {
  LILY_TRY(auto file, MappedFile::open(path));
  auto owner = std::make_shared<MappedFile>(std::move(file));
  const auto bytes = owner->bytes();
  LILY_TRY(auto header, parse_image_header(bytes, {bytes.size(), path.string()}));
  const auto data = bytes.subspan(header.data_start, header.data_bytes);
  return WeightImage(std::move(header), data, std::move(owner));
}

const TensorView* WeightImage::find(std::string_view name) const {
  const auto found = views_.find(name);
  return found == views_.end() ? nullptr : &found->second;
}

}  // namespace lily
