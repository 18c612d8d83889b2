// Taking memory of the card and copying.
#include "backend/gpu/cuda/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace lily::gpu::cuda {
namespace {

CUdeviceptr number(const void* address) {
  return reinterpret_cast<CUdeviceptr>(address);
}

std::string gigabytes(std::uint64_t bytes) {
  return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9);
}

}  // namespace

Result<std::shared_ptr<Memory>> Memory::create(std::shared_ptr<Context> context) {
  const std::shared_ptr<Memory> memory(new Memory(std::move(context)));
  LILY_RETURN_IF_ERROR(memory->open());
  return memory;
}

Result<void> Memory::open() {
  const Driver& cu = context_->use();
  LILY_RETURN_IF_ERROR(
      cu.check(cu.cuStreamCreate(&copies_, CU_STREAM_NON_BLOCKING), "making a stream for copies"));
  for (Piece& piece : pieces_) {
    void* bytes = nullptr;
    LILY_RETURN_IF_ERROR(
        cu.check(cu.cuMemAllocHost(&bytes, kPieceBytes), "locking pages for copies"));
    piece.bytes = static_cast<std::byte*>(bytes);
    LILY_RETURN_IF_ERROR(
        cu.check(cu.cuEventCreate(&piece.moved, CU_EVENT_DISABLE_TIMING), "making an event"));
  }
  return {};
}

Memory::~Memory() {
  const Driver& cu = context_->use();
  for (const Piece& piece : pieces_) {
    if (piece.moved != nullptr) cu.cuEventDestroy(piece.moved);
    if (piece.bytes != nullptr) cu.cuMemFreeHost(piece.bytes);
  }
  if (copies_ != nullptr) cu.cuStreamDestroy(copies_);
}

Result<Buffer> Memory::take(std::size_t bytes, std::string_view what) {
  const Driver& cu = context_->use();
  CUdeviceptr address = 0;
  const CUresult result = cu.cuMemAlloc(&address, std::max<std::size_t>(bytes, 1));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    return Error{ErrorCode::kNoMemory,
                 fmt::format("{}: {} needed, {} of the card's memory are free", what,
                             gigabytes(bytes), gigabytes(context_->free_bytes()))};
  }
  if (result != CUDA_SUCCESS) return cu.error(result, fmt::format("allocating {}", what));
  void* const pointer = reinterpret_cast<void*>(address);
  return Buffer(pointer, bytes, std::shared_ptr<void>(pointer, [context = context_](void* p) {
                  context->use().cuMemFree(number(p));
                }));
}

Result<Buffer> Memory::allocate(std::size_t bytes, std::string_view what) {
  LILY_TRY(auto buffer, take(bytes, what));
  const std::lock_guard lock(mutex_);
  const Driver& cu = context_->use();
  LILY_RETURN_IF_ERROR(
      cu.check(cu.cuMemsetD8Async(number(buffer.address()), 0, bytes, copies_), "zeroing memory"));
  LILY_RETURN_IF_ERROR(cu.check(cu.cuStreamSynchronize(copies_), "zeroing memory"));
  return buffer;
}

Result<Buffer> Memory::upload(std::span<const std::byte> bytes, std::string_view what,
                              const UploadProgress& progress) {
  LILY_TRY(auto buffer, take(bytes.size(), what));
  LILY_RETURN_IF_ERROR(write(buffer.address(), bytes, progress));
  return buffer;
}

// Two pieces take turns: one is filled while the other moves.
Result<void> Memory::write(void* to, std::span<const std::byte> bytes,
                           const UploadProgress& progress) {
  const std::lock_guard lock(mutex_);
  const Driver& cu = context_->use();
  std::size_t turn = 0;
  for (std::size_t at = 0; at < bytes.size(); at += kPieceBytes, turn ^= 1) {
    const auto part = bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at));
    const Piece& piece = pieces_[turn];
    LILY_RETURN_IF_ERROR(cu.check(cu.cuEventSynchronize(piece.moved), "copying to the card"));
    std::memcpy(piece.bytes, part.data(), part.size());
    LILY_RETURN_IF_ERROR(
        cu.check(cu.cuMemcpyHtoDAsync(number(to) + at, piece.bytes, part.size(), copies_),
                 "copying to the card"));
    LILY_RETURN_IF_ERROR(cu.check(cu.cuEventRecord(piece.moved, copies_), "copying to the card"));
    if (progress) progress(at + part.size(), bytes.size());
  }
  return cu.check(cu.cuStreamSynchronize(copies_), "copying to the card");
}

Result<void> Memory::read(const void* from, std::span<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  const Driver& cu = context_->use();
  for (std::size_t at = 0; at < bytes.size(); at += kPieceBytes) {
    const auto part = bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at));
    LILY_RETURN_IF_ERROR(
        cu.check(cu.cuMemcpyDtoHAsync(pieces_[0].bytes, number(from) + at, part.size(), copies_),
                 "copying from the card"));
    LILY_RETURN_IF_ERROR(cu.check(cu.cuStreamSynchronize(copies_), "copying from the card"));
    std::memcpy(part.data(), pieces_[0].bytes, part.size());
  }
  return {};
}

}  // namespace lily::gpu::cuda
