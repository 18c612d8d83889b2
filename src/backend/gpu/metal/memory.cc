// Buffers, what they may take, and addresses.
#include "backend/gpu/metal/memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace lily::gpu::metal {
namespace {

// Above any address of a processor or a GPU.
constexpr std::uintptr_t kAdoptedSpace = std::uintptr_t{1} << 60;

std::uintptr_t number(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// The whole pages that hold some bytes.
std::span<std::byte> pages_of(std::span<const std::byte> bytes) {
  const std::size_t before = number(bytes.data()) % page_bytes();
  return {const_cast<std::byte*>(bytes.data()) - before,
          round_up(before + bytes.size(), page_bytes())};
}

std::string gigabytes(std::uint64_t bytes) {
  return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9);
}

}  // namespace

Memory::Memory(SystemDevice device, ResidencySet residency)
    : device_(std::move(device)),
      residency_(std::move(residency)),
      max_buffer_bytes_(device_.max_buffer_bytes()),
      budget_bytes_(device_.working_set_bytes()),
      next_adopted_(kAdoptedSpace) {}

Result<std::shared_ptr<Memory>> Memory::create(SystemDevice device) {
  Id error = nullptr;
  auto residency = device.residency_set(error);
  if (!residency) {
    return Error{ErrorCode::kDevice, "Metal gave no residency set: " + error_text(error)};
  }
  return std::shared_ptr<Memory>(new Memory(std::move(device), std::move(residency)));
}

Result<void> Memory::reserve(std::size_t bytes, std::string_view what) {
  const std::lock_guard lock(mutex_);
  if (bytes <= budget_bytes_ - std::min(budget_bytes_, used_bytes_)) {
    used_bytes_ += bytes;
    return {};
  }
  return Error{
      ErrorCode::kNoMemory,
      fmt::format("{}: {} needed beside {} in use; Metal lets a program use {} here "
                  "(sysctl iogpu.wired_limit_mb changes that)",
                  what, gigabytes(bytes), gigabytes(used_bytes_), gigabytes(budget_bytes_))};
}

void Memory::release(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  used_bytes_ -= bytes;
}

std::uint64_t Memory::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

std::size_t Memory::piece_bytes() const {
  return max_buffer_bytes_ / (2 * page_bytes()) * 2 * page_bytes();
}

Result<Buffer> Memory::allocate(std::size_t bytes, std::string_view what) {
  const std::size_t taken = std::max(bytes, kSectionAlign);
  if (taken > max_buffer_bytes_) {
    return Error{ErrorCode::kNoMemory,
                 fmt::format("{}: {} needed in one piece; a buffer of Metal's holds {}", what,
                             gigabytes(bytes), gigabytes(max_buffer_bytes_))};
  }
  LILY_RETURN_IF_ERROR(reserve(bytes, what));
  Block block{nullptr, bytes, {}, nullptr};
  block.buffers.push_back(device_.buffer(taken));
  const DeviceBuffer& buffer = block.buffers.front();
  if (!buffer) {
    release(bytes);
    return Error{ErrorCode::kNoMemory,
                 fmt::format("{}: Metal gave no buffer of {}; {} are in use", what,
                             gigabytes(bytes), gigabytes(used_bytes()))};
  }
  block.host = static_cast<std::byte*>(buffer.contents());
  return keep(reinterpret_cast<void*>(buffer.gpu_address()), std::move(block));
}

// One buffer where it holds everything; else pieces that begin half a buffer apart, so that
// whatever fits into half of one lies in one.
Result<std::vector<DeviceBuffer>> Memory::wrap(std::span<std::byte> pages) const {
  const std::size_t most = piece_bytes();
  std::vector<DeviceBuffer> buffers;
  for (std::size_t begin = 0; begin == 0 || begin + most / 2 < pages.size(); begin += most / 2) {
    const auto piece = pages.subspan(begin, std::min(most, pages.size() - begin));
    buffers.push_back(device_.wrap(piece.data(), piece.size()));
    if (!buffers.back()) {
      return Error{ErrorCode::kDevice,
                   fmt::format("Metal refused to use {} of weights at {} where they lie",
                               gigabytes(piece.size()), static_cast<void*>(piece.data()))};
    }
  }
  return buffers;
}

Result<Buffer> Memory::adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner) {
  LILY_RETURN_IF_ERROR(reserve(bytes.size(), "weights"));
  const auto pages = pages_of(bytes);
  auto buffers = wrap(pages);
  if (!buffers) {
    release(bytes.size());
    return std::move(buffers).error();
  }
  // As far into a page as in the host's memory.
  const auto before = static_cast<std::size_t>(bytes.data() - pages.data());
  const std::uintptr_t address = next_adopted_.fetch_add(pages.size() + page_bytes()) + before;
  return keep(reinterpret_cast<void*>(address), {const_cast<std::byte*>(bytes.data()), bytes.size(),
                                                 *std::move(buffers), std::move(owner)});
}

Buffer Memory::keep(void* address, Block block) {
  const std::size_t bytes = block.bytes;
  {
    const std::lock_guard lock(mutex_);
    for (const DeviceBuffer& buffer : block.buffers) residency_.add(buffer);
    residency_.commit();
    residency_.request();
    blocks_.emplace(number(address), std::move(block));
  }
  const auto forget = [memory = shared_from_this()](void* at) { memory->forget(at); };
  return Buffer(address, bytes, std::shared_ptr<void>(address, forget));
}

void Memory::request_residency() {
  const Pool pool;
  const std::lock_guard lock(mutex_);
  residency_.request();
}

void Memory::forget(void* address) {
  const Pool pool;
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.extract(number(address));
  LILY_CHECK(!block.empty());
  for (const DeviceBuffer& buffer : block.mapped().buffers) residency_.remove(buffer);
  residency_.commit();
  used_bytes_ -= block.mapped().bytes;
}

const Memory::Block* Memory::block_at(const void* address, std::size_t& offset) const {
  const std::lock_guard lock(mutex_);
  const auto next = blocks_.upper_bound(number(address));
  LILY_CHECK(next != blocks_.begin());
  const auto& [begin, block] = *std::prev(next);
  offset = number(address) - begin;
  LILY_CHECK(offset < std::max<std::size_t>(block.bytes, 1));
  return &block;
}

std::byte* Memory::host(const void* address) const {
  std::size_t offset = 0;
  const Block* block = block_at(address, offset);
  return block->host + offset;
}

Id Memory::buffer(const void* address) const {
  std::size_t offset = 0;
  return block_at(address, offset)->buffers.front().id();
}

bool Memory::adopted(const void* address) {
  return number(address) >= kAdoptedSpace;
}

Result<std::uint64_t> Memory::gpu_address(const Range& range) const {
  std::size_t offset = 0;
  const Block* block = block_at(range.address, offset);
  offset += number(block->host) % page_bytes();
  const std::size_t step = piece_bytes() / 2;
  const std::size_t index = std::min(offset / step, block->buffers.size() - 1);
  offset -= index * step;
  if (offset + range.bytes <= piece_bytes()) return block->buffers[index].gpu_address() + offset;
  return Error{ErrorCode::kUnsupported,
               fmt::format("a tensor of {} is more than half of what a buffer of Metal's holds, {}",
                           gigabytes(range.bytes), gigabytes(max_buffer_bytes_))};
}

}  // namespace lily::gpu::metal
