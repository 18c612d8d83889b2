// The order of a start: read, compare, use or pack, map. Packing to a file: pack_file.cc.
#include "weights/load.h"

#include <system_error>

#include "base/env.h"
#include "base/log.h"
#include "weights/anonymous.h"
#include "weights/hash.h"
#include "weights/pack.h"
#include "weights/pack_file.h"

namespace lily {
namespace {

namespace fs = std::filesystem;

// Everything known of the source before any image is looked at.
struct Source {
  CheckpointConfig config;
  Checkpoint checkpoint;
  std::vector<ManifestEntry> entries;
  ImageHeader plan;
};

Result<Source> open_source(const Path& folder, CheckpointConfig config, WeightLayout layout) {
  LILY_TRY(auto checkpoint, Checkpoint::open(folder));
  auto entries = manifest(config);
  LILY_RETURN_IF_ERROR(check_source(checkpoint, entries));
  LILY_TRY(const auto fingerprint, checkpoint.fingerprint());
  auto plan = plan_image(entries, layout, fingerprint);
  return Source{std::move(config), std::move(checkpoint), std::move(entries), std::move(plan)};
}

// The image at `path` if it is there and fits; `out` is left as it is when not.
struct Fit {
  bool fits = false;
  LogLevel level = LogLevel::kDebug;  // How much the reason matters.
  std::string reason = {};            // Why an image that is there does not fit.
};

Fit map_if_fitting(const Path& path, const ImageHeader& plan, WeightImage& out) {
  if (path.empty()) return {};
  auto image = WeightImage::map(path);
  if (!image.has_value()) {
    if (image.error().code == ErrorCode::kNotFound) return {};
    return {.level = LogLevel::kWarning, .reason = image.error().message};
  }
  const auto why = image_difference(image->header(), plan);
  if (!why.empty()) return {.level = LogLevel::kInfo, .reason = path.string() + ": " + why};
  out = std::move(*image);
  return {.fits = true};
}

Result<LoadedWeights> pack_in_memory(Source source, const LoadOptions& options) {
  LILY_TRY(auto owner, anonymous_memory(source.plan.data_bytes));
  const std::span data(static_cast<std::byte*>(owner.get()), source.plan.data_bytes);
  const ImageSource image(source.checkpoint, source.entries, source.plan);
  ImageHeader header = source.plan;
  LILY_RETURN_IF_ERROR(pack_into(image, header, data, [&](std::uint64_t done) {
    if (options.progress) options.progress({PackProgress::Phase::kPacking, done, header.data_bytes});
  }));
  return LoadedWeights{std::move(source.config), WeightImage(std::move(header), data, std::move(owner)), {}, true};
}

Result<LoadedWeights> pack_to(const Path& path, Source& source, const LoadOptions& options) {
  LILY_RETURN_IF_ERROR(prepare_folder(path.parent_path()));
  LILY_TRY(const auto lock, lock_image(path, options.progress));
  LoadedWeights loaded{source.config, {}, path, false};
  // Another process may just have made it. What does not fit was named before the lock.
  if (map_if_fitting(path, source.plan, loaded.image).fits) return loaded;
  const ImageSource image(source.checkpoint, source.entries, source.plan);
  LILY_RETURN_IF_ERROR(pack_to_file(image, source.plan, path, options.progress));
  LILY_TRY(loaded.image, WeightImage::map(path));
  loaded.packed = true;
  return loaded;
}

// Beside the model, or in the cache when that folder refuses us.
Result<LoadedWeights> pack_and_map(Source source, const ImagePlaces& places, const LoadOptions& options) {
  auto loaded = pack_to(places.beside, source, options);
  if (loaded.has_value() || loaded.error().code != ErrorCode::kPermission) return loaded;
  if (!places.cached.empty()) {
    auto cached = pack_to(places.cached, source, options);
    if (cached.has_value() || cached.error().code != ErrorCode::kPermission) return cached;
  }
  Error error = std::move(loaded).error();
  error.message += "; neither the model's folder nor the cache folder can be written: with --no-pack the weights are "
                   "packed in memory instead";
  return error;
}

void list_damage(const WeightImage& image, VerifyReport& report) {
  for (const auto& tensor : image.header().tensors) {
    const std::uint64_t first = tensor.offset / kImageBlock, last = (tensor.offset + tensor.bytes - 1) / kImageBlock;
    for (const auto block : report.bad_blocks) {
      if (block < first || block > last) continue;
      report.bad_tensors.push_back(tensor.name);
      break;
    }
  }
}

// The image that a start would use: of the two places the first whose image fits, else the first that holds one.
Result<WeightImage> map_best(const ImagePlaces& places, const ImageHeader& plan, Path& found) {
  std::error_code code;
  for (const Path& place : {places.beside, places.cached}) {
    if (place.empty() || !fs::exists(place, code)) continue;
    if (found.empty()) found = place;
    const auto image = WeightImage::map(place);
    if (!image.has_value() || !image_difference(image->header(), plan).empty()) continue;
    found = place;
    break;
  }
  if (!found.empty()) return WeightImage::map(found);
  return Error{ErrorCode::kNotFound, places.beside.string() + ": no packed image yet; it is made at the first start"};
}

}  // namespace

ImagePlaces image_places(const Path& folder, WeightLayout layout, const Path& cache_folder) {
  const auto file = std::string(layout_name(layout)) + ".lilyimage";
  ImagePlaces places;
  places.beside = folder / ".lily" / file;
  const Path cache = cache_folder.empty() ? env::cache_folder() : cache_folder;
  if (cache.empty()) return places;
  std::error_code code;
  const auto absolute = fs::weakly_canonical(folder, code);
  const auto text = (code ? folder : absolute).string();
  places.cached = cache / hex(checksum(std::as_bytes(std::span(text)))) / file;
  return places;
}

Result<LoadedWeights> load_weights(const Path& folder, const LoadOptions& options) {
  LILY_TRY(auto config, read_config(folder));
  return load_weights(folder, std::move(config), options);
}

Result<LoadedWeights> load_weights(const Path& folder, CheckpointConfig config, const LoadOptions& options) {
  LILY_TRY(auto source, open_source(folder, std::move(config), options.layout));
  if (!options.pack) return pack_in_memory(std::move(source), options);
  const auto places = image_places(folder, options.layout, options.cache_folder);
  std::vector<Fit> misfits;
  for (const Path& path : {places.beside, places.cached}) {
    LoadedWeights loaded{source.config, {}, path, false};
    misfits.push_back(map_if_fitting(path, source.plan, loaded.image));
    if (misfits.back().fits) return loaded;
  }
  for (const Fit& misfit : misfits) {
    if (!misfit.reason.empty()) log(misfit.level, misfit.reason + "; packing again");
  }
  return pack_and_map(std::move(source), places, options);
}

Result<VerifyReport> verify_image(const Path& folder, const LoadOptions& options) {
  LILY_TRY(auto config, read_config(folder));
  LILY_TRY(const auto source, open_source(folder, std::move(config), options.layout));
  VerifyReport report;
  LILY_TRY(const auto image, map_best(image_places(folder, options.layout, options.cache_folder), source.plan, report.image));
  const auto& header = image.header();
  report.bytes = header.data_bytes;
  report.blocks = header.block_sums.size();
  report.source_matches = image_difference(header, source.plan).empty();
  for (std::uint64_t block = 0; block < report.blocks; ++block) {
    const std::uint64_t begin = block * kImageBlock, end = std::min(header.data_bytes, begin + kImageBlock);
    if (checksum(image.bytes().subspan(begin, end - begin)) != header.block_sums[block]) {
      report.bad_blocks.push_back(block);
    }
    if (options.progress) options.progress({PackProgress::Phase::kChecking, end, header.data_bytes});
  }
  list_damage(image, report);
  return report;
}

}  // namespace lily
