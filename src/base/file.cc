// Files on POSIX. Every call reports errno with what was being done.
#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace lily {
namespace {

ErrorCode code_of(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR: return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS: return ErrorCode::kPermission;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return ErrorCode::kNoSpace;
    case ENOMEM: return ErrorCode::kNoMemory;
    default: return ErrorCode::kIo;
  }
}

struct OpenFile {
  int fd;
  std::size_t size;
};

// The descriptor of a regular file and its size. The caller closes it. Opening does not wait for the other end of a pipe.
Result<OpenFile> open_regular(const Path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return system_error("opening " + path.string(), errno);
  struct stat info {};
  const bool known = ::fstat(fd, &info) == 0;
  if (!known || !S_ISREG(info.st_mode)) {
    const int error_number = known ? 0 : errno;
    ::close(fd);
    if (known) return Error{ErrorCode::kInvalidArgument, path.string() + ": not a regular file"};
    return system_error("reading the size of " + path.string(), error_number);
  }
  return OpenFile{fd, static_cast<std::size_t>(info.st_size)};
}

// Writes all of `bytes` at `offset`, across short writes and interruptions; 0 or errno.
int write_all(int fd, std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return 0;
}

}  // namespace

Error system_error(const std::string& doing, int error_number) {
  return {code_of(error_number), doing + ": " + std::generic_category().message(error_number)};
}

Result<MappedFile> MappedFile::open(const Path& path) {
  LILY_TRY(const OpenFile file, open_regular(path));
  void* data = nullptr;
  int error_number = 0;
  if (file.size > 0) {
    data = ::mmap(nullptr, file.size, PROT_READ, MAP_SHARED, file.fd, 0);
    if (data == MAP_FAILED) error_number = errno;
#if defined(MADV_HUGEPAGE)
    // Advice: refusal changes nothing but speed.
    if (!error_number) ::madvise(data, file.size, MADV_HUGEPAGE);
#endif
  }
  ::close(file.fd);
  if (error_number) return system_error("mapping " + path.string(), error_number);
  return MappedFile(path, static_cast<const std::byte*>(data), file.size);
}

MappedFile::MappedFile(Path path, const std::byte* data, std::size_t size)
    : path_(std::move(path)), data_(data), size_(size) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  path_ = std::move(other.path_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

MappedFile::~MappedFile() { unmap(); }

void MappedFile::unmap() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::drop(std::size_t offset, std::size_t size) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t begin = (offset + page - 1) / page * page;
  const std::size_t end = std::min(offset + size, size_) / page * page;
  if (data_ && begin < end) ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

namespace {

// Reads on until the end or one byte over the limit: files of /proc and /sys say that they hold 0
// bytes. Returns errno, 0 for success.
int read_to_end(int fd, std::size_t expected, std::size_t limit, std::string& text) {
  constexpr std::size_t kStep = 4096;
  std::size_t done = 0;
  for (;;) {
    if (done == text.size()) text.resize(std::min(limit, std::max(expected, 2 * done + kStep)) + 1);
    const auto n = ::read(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n > 0) done += static_cast<std::size_t>(n);
    if (n > 0 && done <= limit) continue;
    text.resize(done);
    return n < 0 ? errno : 0;
  }
}

}  // namespace

Result<std::string> read_file(const Path& path, std::size_t limit_bytes) {
  LILY_TRY(const OpenFile file, open_regular(path));
  std::string text;
  const int error_number =
      file.size > limit_bytes ? 0 : read_to_end(file.fd, file.size, limit_bytes, text);
  ::close(file.fd);
  if (error_number) return system_error("reading " + path.string(), error_number);
  const std::size_t found = std::max(file.size, text.size());
  if (found <= limit_bytes) return text;
  return Error{ErrorCode::kTooLarge, path.string() + ": " + std::to_string(found) +
                                         " bytes, at most " + std::to_string(limit_bytes) +
                                         " are read"};
}

Result<AtomicFile> AtomicFile::create(const Path& path, bool keep_partial) {
  AtomicFile file;
  file.path_ = path;
  file.partial_ = path.string() + ".part";
  // A link in its place would have us write somewhere else.
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (keep_partial ? 0 : O_TRUNC);
  file.fd_ = ::open(file.partial_.c_str(), flags, 0644);
  if (file.fd_ < 0) return system_error("creating " + file.partial_.string(), errno);
  struct stat info {};
  if (::fstat(file.fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    file.keep();
    return Error{ErrorCode::kInvalidArgument, file.partial_.string() + ": not a regular file"};
  }
  file.size_ = static_cast<std::uint64_t>(info.st_size);
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      partial_(std::move(other.partial_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      keep_(other.keep_) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(partial_, other.partial_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(keep_, other.keep_);
  return *this;
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (!keep_) ::unlink(partial_.c_str());
}

Result<void> AtomicFile::append(std::span<const std::byte> bytes) { return write_at(size_, bytes); }

Result<void> AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (const int error_number = write_all(fd_, offset, bytes)) {
    return system_error("writing " + partial_.string(), error_number);
  }
  size_ = std::max(size_, offset + bytes.size());
  return {};
}

Result<void> AtomicFile::truncate(std::uint64_t size) {
  if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) {
    return system_error("resizing " + partial_.string(), errno);
  }
  size_ = size;
  return {};
}

Result<void> AtomicFile::sync() {
  if (::fsync(fd_) != 0) return system_error("flushing " + partial_.string(), errno);
  return {};
}

Result<void> AtomicFile::commit() {
  LILY_RETURN_IF_ERROR(sync());
  if (::rename(partial_.c_str(), path_.c_str()) != 0) {
    return system_error("renaming " + partial_.string(), errno);
  }
  ::close(std::exchange(fd_, -1));
  return {};
}

}  // namespace lily
