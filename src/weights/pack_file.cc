// Writing, recording, resuming; see pack_file.h. The caller holds the image's lock.
#include "weights/pack_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/log.h"
#include "weights/hash.h"

namespace lily {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kRecordEvery = 16;             // Blocks between two records of what is finished: 256 MiB.
constexpr std::uint64_t kSpareBytes = 64u << 20;       // Left free on the disk.

// The header of an unfinished file if it belongs to the same plan, else a plan with nothing done.
ImageHeader recorded(const Path& partial, const ImageHeader& plan) {
  auto file = MappedFile::open(partial);
  if (!file.has_value() || file->bytes().size() < plan.data_start) return plan;
  auto header = parse_image_header(file->bytes().first(plan.data_start),
                                   {file->bytes().size(), partial.string(), /*unfinished=*/true});
  const bool same = header.has_value() && header->layout == plan.layout && header->manifest == plan.manifest &&
                    header->source == plan.source && header->file_bytes() == plan.file_bytes();
  return same ? *header : plan;
}

// How many of the recorded blocks are on the disk with their checksums.
std::uint64_t intact_blocks(const Path& partial, const ImageHeader& header, const ProgressFunction& progress) {
  auto file = MappedFile::open(partial);
  if (!file.has_value()) return 0;
  for (std::uint64_t block = 0; block < header.blocks_done; ++block) {
    const std::uint64_t begin = header.data_start + block * kImageBlock;
    const std::uint64_t end = std::min(header.file_bytes(), begin + kImageBlock);
    if (end > file->bytes().size()) return block;
    if (checksum(file->bytes().subspan(begin, end - begin)) != header.block_sums[block]) return block;
    file->drop(begin, end - begin);
    if (progress) progress({PackProgress::Phase::kChecking, end - header.data_start, header.data_bytes});
  }
  return header.blocks_done;
}

Result<void> check_space(const Path& path, std::uint64_t wanted) {
  std::error_code code;
  const auto space = fs::space(path.parent_path(), code);
  if (code || space.available >= wanted + kSpareBytes) return {};
  return Error{ErrorCode::kNoSpace,
               fmt::format("{}: packing needs {:.1f} GB, the disk has {:.1f} GB free; free some space, or use --no-pack to "
                           "hold the weights in memory",
                           path.string(), static_cast<double>(wanted) / 1e9, static_cast<double>(space.available) / 1e9)};
}

class ImageWriter {
 public:
  ImageWriter(AtomicFile& file, ImageHeader& header, const ProgressFunction& progress)
      : file_(file), header_(header), progress_(progress) {}

  Result<void> block(std::uint64_t index, std::span<const std::byte> bytes) {
    LILY_RETURN_IF_ERROR(file_.write_at(header_.data_start + index * kImageBlock, bytes));
    if ((index + 1) % kRecordEvery == 0) LILY_RETURN_IF_ERROR(record(index + 1));
    const std::uint64_t done = index * kImageBlock + bytes.size();
    if (progress_) progress_({PackProgress::Phase::kPacking, done, header_.data_bytes});
    return {};
  }

  // The blocks reach the disk before the record that vouches for them.
  Result<void> record(std::uint64_t blocks_done) {
    LILY_RETURN_IF_ERROR(file_.sync());
    ImageHeader now = header_;
    now.blocks_done = blocks_done;
    return file_.write_at(0, image_header_bytes(now));
  }

 private:
  AtomicFile& file_;
  ImageHeader& header_;
  const ProgressFunction& progress_;
};

// A folder that ignores itself, so that images stay out of a model's git repository.
void write_ignore_file(const Path& folder) {
  auto file = AtomicFile::create(folder / ".gitignore");
  if (file.has_value() && file->append(std::as_bytes(std::span("*\n", 2))).has_value()) {
    if (auto done = file->commit(); !done.has_value()) log_debug(done.error().message);
  }
}

}  // namespace

Result<void> prepare_folder(const Path& folder) {
  std::error_code code;
  const bool created = fs::create_directories(folder, code);
  if (code) {
    Error error = system_error("creating " + folder.string(), code.value());
    if (error.code != ErrorCode::kNoSpace) error.code = ErrorCode::kPermission;  // Whatever the reason: not here.
    return error;
  }
  if (created) write_ignore_file(folder);
  return {};
}

Result<FileLock> lock_image(const Path& path, const ProgressFunction& progress) {
  return FileLock::acquire(path.string() + ".lock", [&] {
    if (progress) progress({PackProgress::Phase::kWaiting, 0, 0});
  });
}

Result<void> pack_to_file(const ImageSource& source, const ImageHeader& plan, const Path& path,
                          const ProgressFunction& progress) {
  const Path partial = path.string() + ".part";
  ImageHeader header = recorded(partial, plan);
  header.blocks_done = intact_blocks(partial, header, progress);
  const std::uint64_t kept = header.blocks_done * kImageBlock;
  LILY_TRY(auto file, AtomicFile::create(path, /*keep_partial=*/true));
  LILY_RETURN_IF_ERROR(file.truncate(header.blocks_done ? std::min(header.file_bytes(), header.data_start + kept) : 0));
  LILY_RETURN_IF_ERROR(check_space(path, header.file_bytes() - std::min(header.file_bytes(), kept)));
  ImageWriter writer(file, header, progress);
  LILY_RETURN_IF_ERROR(pack_in_order(source, header, [&](std::uint64_t index, std::span<const std::byte> bytes) {
    return writer.block(index, bytes);
  }));
  LILY_RETURN_IF_ERROR(writer.record(header.block_sums.size()));
  return file.commit();
}

}  // namespace lily
