// Which buffers there are and which are gone.
#include <utility>

#include "backend/gpu/gpu_backend.h"
#include "base/check.h"

namespace lily::gpu {
void Buffers::add(const void* address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  sizes_[number(address)] = bytes;
}

void Buffers::remove(const void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = sizes_.find(number(address));
  LILY_CHECK(found != sizes_.end());
  freed_.push_back({address, found->second});
  sizes_.erase(found);
}

std::size_t Buffers::to_end(const void* address) const {
  const std::lock_guard lock(mutex_);
  auto next = sizes_.upper_bound(number(address));
  if (next == sizes_.begin()) return 0;
  const auto& [begin, bytes] = *--next;
  return number(address) < begin + bytes ? begin + bytes - number(address) : 0;
}

std::vector<Range> Buffers::take_freed() {
  const std::lock_guard lock(mutex_);
  return std::exchange(freed_, {});
}

}  // namespace lily::gpu
