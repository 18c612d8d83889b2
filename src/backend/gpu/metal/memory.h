// Memory that host and GPU share.
//
// What allocate() gives has the GPU's own addresses, since kernels find some of them in memory.
// Adopted memory may be larger than any buffer of Metal's (20 GB of weights on a Mac of 32), so it
// lies behind several overlapping buffers whose addresses do not follow each other. It gets
// addresses of a space that no GPU uses, one unbroken range, and launches are given the address in
// a buffer that holds all they declared. Only arguments may name it, never memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "backend/gpu/metal/api.h"
#include "backend/gpu/recorder.h"
#include "backend/ops.h"

namespace lily::gpu::metal {

class Memory : public std::enable_shared_from_this<Memory> {
 public:
  // kUnsupported where the system has no residency sets.
  static Result<std::shared_ptr<Memory>> create(SystemDevice device);

  // kNoMemory names what was wanted, what is in use and what Metal lets a program use.
  Result<Buffer> allocate(std::size_t bytes, std::string_view what);
  Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner);

  // Where the host finds an address.
  std::byte* host(const void* address) const;
  // The buffer at an address of allocate().
  Id buffer(const void* address) const;
  static bool adopted(const void* address);
  // Where a GPU finds all of a range of adopted memory; kUnsupported where no buffer can hold it.
  Result<std::uint64_t> gpu_address(const Range& range) const;

  const SystemDevice& device() const { return device_; }
  // Everything that lives here, for the queue.
  const ResidencySet& residency() const { return residency_; }
  // Once more, of everything that lives here: residency.h.
  void request_residency();
  std::uint64_t budget_bytes() const { return budget_bytes_; }

 private:
  struct Block {
    std::byte* host;
    std::size_t bytes;
    std::vector<DeviceBuffer> buffers;  // The first at the start of the first page.
    std::shared_ptr<void> owner;        // Of adopted memory.
  };
  Memory(SystemDevice device, ResidencySet residency);

  Result<void> reserve(std::size_t bytes, std::string_view what);
  void release(std::size_t bytes);
  std::uint64_t used_bytes() const;
  // The largest buffer over adopted memory: whole pages, and half of it too.
  std::size_t piece_bytes() const;
  Result<std::vector<DeviceBuffer>> wrap(std::span<std::byte> pages) const;
  Buffer keep(void* address, Block block);
  void forget(void* address);
  const Block* block_at(const void* address, std::size_t& offset) const;

  SystemDevice device_;
  ResidencySet residency_;
  std::size_t max_buffer_bytes_;
  std::uint64_t budget_bytes_;
  mutable std::mutex mutex_;  // A buffer may be freed by any thread.
  std::map<std::uintptr_t, Block> blocks_;
  std::uint64_t used_bytes_ = 0;
  std::atomic<std::uintptr_t> next_adopted_;
};

}  // namespace lily::gpu::metal
