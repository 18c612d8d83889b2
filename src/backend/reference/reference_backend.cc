// Memory and passes of the reference backend.
#include "backend/reference/reference_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/check.h"

namespace lily::reference {
namespace {

constexpr std::size_t kBufferAlign = 64;

bool inside(const Buffer& buffer, std::size_t offset, std::size_t bytes) {
  return offset <= buffer.bytes() && bytes <= buffer.bytes() - offset;
}

}  // namespace

ReferenceBackend::ReferenceBackend()
    : info_{.name = "reference",
            .description = "plain loops, 1 thread, f32 activations",
            .layout = WeightLayout::kRowMajor,
            .kv_element_bytes = sizeof(float)} {}

Result<void> ReferenceBackend::prepare(const ModelSpec&, int max_rows) {
  if (max_rows >= 1 && max_rows <= kMaxPassRows) return {};
  return Error{ErrorCode::kInvalidArgument, "rows of a pass: " + std::to_string(max_rows) +
                                                ", expected 1 to " + std::to_string(kMaxPassRows)};
}

// Anonymous pages are zero and take memory only when they are first touched.
Result<Buffer> ReferenceBackend::allocate(std::size_t bytes, std::string_view what) {
  const std::size_t mapped = std::max<std::size_t>(bytes, 1);
  void* pages = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) {
    return Error{ErrorCode::kNoMemory, "allocating " + std::string(what) + ": " +
                                           std::to_string(bytes) +
                                           " bytes: " + std::strerror(errno)};
  }
  return Buffer(pages, bytes,
                std::shared_ptr<void>(pages, [mapped](void* p) { munmap(p, mapped); }));
}

Result<Buffer> ReferenceBackend::adopt(std::span<const std::byte> bytes,
                                       std::shared_ptr<void> owner) {
  const std::size_t past = reinterpret_cast<std::uintptr_t>(bytes.data()) % kBufferAlign;
  if (past != 0) {
    return Error{ErrorCode::kInvalidArgument, "weights lie " + std::to_string(past) +
                                                  " bytes past a multiple of 64, expected 0"};
  }
  return Buffer(const_cast<std::byte*>(bytes.data()), bytes.size(), std::move(owner));
}

void ReferenceBackend::write(const Buffer& to, std::size_t offset,
                             std::span<const std::byte> bytes) {
  LILY_CHECK(inside(to, offset, bytes.size()));
  if (!bytes.empty()) std::memcpy(to.as<std::byte>(offset), bytes.data(), bytes.size());
}

Result<void> ReferenceBackend::read(const Buffer& from, std::size_t offset,
                                    std::span<std::byte> bytes) {
  LILY_CHECK(inside(from, offset, bytes.size()));
  if (!bytes.empty()) std::memcpy(bytes.data(), from.as<std::byte>(offset), bytes.size());
  return {};
}

void ReferenceBackend::copy(const CopyArgs& args) {
  std::memmove(args.to, args.from, static_cast<std::size_t>(args.bytes));
}

Result<void> ReferenceBackend::wait(Ticket ticket) {
  LILY_CHECK(ticket <= ticket_);
  return {};
}

Result<std::unique_ptr<Backend>> open(const BackendOptions& options) {
  if (!options.isa.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "reference backend: instruction set '" + options.isa + "', expected none"};
  }
  return std::unique_ptr<Backend>(std::make_unique<ReferenceBackend>());
}

}  // namespace lily::reference
