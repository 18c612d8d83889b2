// See anonymous.h.
#include "weights/anonymous.h"

#include <sys/mman.h>

#include <cerrno>
#include <string>

#include "base/file.h"

namespace lily {

Result<std::shared_ptr<void>> anonymous_memory(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return system_error("reserving " + std::to_string(bytes) + " bytes for the weights", errno);
  }
#ifdef MADV_HUGEPAGE
  ::madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  return std::shared_ptr<void>(memory, [bytes](void* p) { ::munmap(p, bytes); });
}

}  // namespace lily
