// Memory of the card, and the host's copies to and from it through page-locked memory, on a stream
// beside the one that replays.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>

#include "backend/gpu/cuda/context.h"
#include "backend/gpu/cuda/open.h"
#include "backend/ops.h"

namespace lily::gpu::cuda {

class Memory {
 public:
  static Result<std::shared_ptr<Memory>> create(std::shared_ptr<Context> context);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Zeroed. A buffer keeps the context alive, not this object.
  Result<Buffer> allocate(std::size_t bytes, std::string_view what);
  // A copy of the bytes, moved while the next piece is fetched.
  Result<Buffer> upload(std::span<const std::byte> bytes, std::string_view what,
                        const UploadProgress& progress);

  // Done on return.
  Result<void> write(void* to, std::span<const std::byte> bytes,
                     const UploadProgress& progress = {});
  Result<void> read(const void* from, std::span<std::byte> bytes);

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{32} << 20;
  // Page-locked, and what tells that the copy out of it is done.
  struct Piece {
    std::byte* bytes = nullptr;
    CUevent moved = nullptr;
  };

  explicit Memory(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  Result<void> open();
  Result<Buffer> take(std::size_t bytes, std::string_view what);

  std::shared_ptr<Context> context_;
  std::mutex mutex_;  // Of the stream and the pieces.
  CUstream copies_ = nullptr;
  Piece pieces_[2];
};

}  // namespace lily::gpu::cuda
