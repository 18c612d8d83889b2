// Memory of the emulator for one group: threadgroup memory, a copy of the arguments. Under
// ThreadSanitizer each piece is newly mapped memory, since what earlier groups did to reused memory
// would count as races.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lily::gpu {

class PrivateMemory {
 public:
  PrivateMemory() = default;
  ~PrivateMemory();
  PrivateMemory(const PrivateMemory&) = delete;
  PrivateMemory& operator=(const PrivateMemory&) = delete;

  // Of exactly `bytes`, aligned to 64, so that AddressSanitizer sees what is past its end. The last
  // piece goes, except under ThreadSanitizer, where pieces go together when 4 MiB are used up.
  unsigned char* take(std::size_t bytes);

 private:
  void drop();
  unsigned char* base_ = nullptr;
  std::size_t bytes_ = 0, used_ = 0;
};

// Stacks of fibers: a page that may not be touched lies below each. Null: no memory.
char* map_stack(std::size_t bytes);
void unmap_stack(char* stack, std::size_t bytes);

}  // namespace lily::gpu
