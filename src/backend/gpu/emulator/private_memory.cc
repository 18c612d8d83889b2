// Mapped and heap memory behind groups: see private_memory.h.
#include "backend/gpu/emulator/private_memory.h"

#include <sys/mman.h>

#include <new>

#include "backend/gpu/emulator/tsan.h"
#include "base/check.h"

namespace lily::gpu {
namespace {

constexpr std::size_t kAlign = 64;
constexpr std::size_t kGuardBytes = 16384;  // A page on every system that Lily runs on.
constexpr std::size_t kMappedBytes = std::size_t{4} << 20;

void* map(std::size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

}  // namespace

PrivateMemory::~PrivateMemory() {
  drop();
}

void PrivateMemory::drop() {
  if (base_ == nullptr) return;
  if constexpr (tsan::kOn) {
    munmap(base_, bytes_);
  } else {
    ::operator delete (base_, std::align_val_t{kAlign});
  }
  base_ = nullptr;
}

unsigned char* PrivateMemory::take(std::size_t bytes) {
  if constexpr (tsan::kOn) {
    const std::size_t padded = (bytes + 2 * kAlign - 1) / kAlign * kAlign;
    if (base_ == nullptr || used_ + padded > bytes_) {
      drop();
      bytes_ = kMappedBytes;
      used_ = 0;
      base_ = static_cast<unsigned char*>(map(bytes_));
      LILY_CHECK(base_ != nullptr);
    }
    used_ += padded;
    return base_ + used_ - padded;
  } else {
    if (base_ != nullptr && bytes_ == bytes) return base_;
    drop();
    bytes_ = bytes;
    base_ = static_cast<unsigned char*>(::operator new (bytes, std::align_val_t{kAlign}));
    return base_;
  }
}

char* map_stack(std::size_t bytes) {
  char* p = static_cast<char*>(map(bytes + kGuardBytes));
  if (p == nullptr) return nullptr;
  mprotect(p, kGuardBytes, PROT_NONE);
  return p + kGuardBytes;
}

void unmap_stack(char* stack, std::size_t bytes) {
  munmap(stack - kGuardBytes, bytes + kGuardBytes);
}

}  // namespace lily::gpu
