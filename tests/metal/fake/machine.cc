// State of the stand-in.
#include "tests/metal/fake/machine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <iterator>

#include "base/check.h"
#include "tests/metal/fake/resources.h"

namespace lily::fake_metal {
namespace {

// ThreadSanitizer leaves a program little more than a tebibyte.
constexpr std::size_t kGpuSpace = std::size_t{1} << 38;

struct State {
  std::mutex mutex;
  Machine machine;
  Faults faults;
  int begun = 0, residency_requests = 0;
  std::map<std::uintptr_t, FakeBuffer*> buffers;
};
State& state() {
  static auto* const s = new State;
  return *s;
}

std::byte* gpu_space() {
  static std::byte* const space = [] {
    void* at =
        mmap(nullptr, kGpuSpace, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    LILY_CHECK(at != MAP_FAILED);
    return static_cast<std::byte*>(at);
  }();
  return space;
}

}  // namespace

void reset(const Machine& machine) {
  const std::lock_guard lock(state().mutex);
  state().machine = machine;
  state().faults = {};
  state().begun = state().residency_requests = 0;
}

void set_faults(const Faults& faults) {
  const std::lock_guard lock(state().mutex);
  state().faults = faults;
}

Machine machine() {
  const std::lock_guard lock(state().mutex);
  return state().machine;
}

Faults faults() {
  const std::lock_guard lock(state().mutex);
  return state().faults;
}

bool fault_due(int Faults::*counter) {
  const std::lock_guard lock(state().mutex);
  int& left = state().faults.*counter;
  return left >= 0 && left-- == 0;
}

void count_command_buffer() {
  const std::lock_guard lock(state().mutex);
  ++state().begun;
}

int command_buffers_begun() {
  const std::lock_guard lock(state().mutex);
  return state().begun;
}

void count_residency_request() {
  const std::lock_guard lock(state().mutex);
  ++state().residency_requests;
}

int residency_requests() {
  const std::lock_guard lock(state().mutex);
  return state().residency_requests;
}

std::size_t page_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::byte* reserve_gpu_addresses(std::size_t bytes) {
  constexpr std::size_t kRoom = 1 << 16;
  static std::atomic<std::size_t> used{kRoom};
  const std::size_t at = used.fetch_add((bytes + 2 * kRoom - 1) / kRoom * kRoom);
  LILY_CHECK(at + bytes < kGpuSpace);
  return gpu_space() + at;
}

void give_up_gpu_addresses(std::byte* at, std::size_t bytes) {
  LILY_CHECK(mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                  0) == at);
}

bool in_gpu_space(std::uintptr_t address) {
  const auto begin = reinterpret_cast<std::uintptr_t>(gpu_space());
  return address >= begin && address < begin + kGpuSpace;
}

void register_buffer(FakeBuffer& buffer, bool alive) {
  const std::lock_guard lock(state().mutex);
  const auto address = reinterpret_cast<std::uintptr_t>(buffer.gpu());
  if (alive) {
    state().buffers[address] = &buffer;
  } else {
    state().buffers.erase(address);
  }
}

FakeBuffer* buffer_at(std::uintptr_t gpu_address) {
  const std::lock_guard lock(state().mutex);
  const auto next = state().buffers.upper_bound(gpu_address);
  if (next == state().buffers.begin()) return nullptr;
  const auto& [begin, buffer] = *std::prev(next);
  return gpu_address < begin + buffer->bytes() ? buffer : nullptr;
}

bool is_alive(const FakeBuffer* buffer) {
  const std::lock_guard lock(state().mutex);
  for (const auto& [address, alive] : state().buffers)
    if (alive == buffer) return true;
  return false;
}

}  // namespace lily::fake_metal
