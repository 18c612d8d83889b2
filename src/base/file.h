// Files: mapped for reading, read whole within a bound, written so that a reader sees the old or the new file and nothing between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/result.h"

namespace lily {

using Path = std::filesystem::path;

// A read-only mapping of a whole file. Moves, never copies; unmaps itself.
class MappedFile {
 public:
  static Result<MappedFile> open(const Path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const Path& path() const { return path_; }
  // Tells the system that the range was read for the last time, so that its pages can be dropped.
  void drop(std::size_t offset, std::size_t size) const;

 private:
  MappedFile(Path path, const std::byte* data, std::size_t size);
  void unmap();
  Path path_;
  const std::byte* data_ = nullptr;  // nullptr when the file is empty.
  std::size_t size_ = 0;
};

// The whole file as text. kTooLarge past `limit_bytes`, kNotFound, kPermission or kIo otherwise.
Result<std::string> read_file(const Path& path, std::size_t limit_bytes);

// Writes `path` through `path`.part and renames it into place; fsync before the rename.
class AtomicFile {
 public:
  // keep_partial: continue an earlier .part file at its end instead of starting anew (size() tells where).
  static Result<AtomicFile> create(const Path& path, bool keep_partial = false);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();  // Without commit(): removes the .part file, unless keep() was called.

  Result<void> append(std::span<const std::byte> bytes);
  Result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  Result<void> truncate(std::uint64_t size);
  Result<void> sync();
  Result<void> commit();
  void keep() { keep_ = true; }
  std::uint64_t size() const { return size_; }

 private:
  AtomicFile() = default;
  Path path_, partial_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  bool keep_ = false;
};

// errno as an Error: ENOENT is kNotFound, EACCES and EPERM kPermission, ENOSPC and EDQUOT kNoSpace, ENOMEM kNoMemory, else kIo.
Error system_error(const std::string& doing, int error_number);

}  // namespace lily
