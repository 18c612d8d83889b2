// Bounds, traffic and hazards of observed kernels, and the functions that their instrumentation
// calls: see observer.h.
#include "backend/gpu/emulator/observer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#if defined(__linux__)
extern "C" {
extern const char __executable_start, _end;
}
#endif

namespace lily::gpu {

static Observer* observer = nullptr;

namespace {

constexpr std::uintptr_t kSectorBytes = 32;

// Tables of a kernel file lie in the program itself.
bool in_program([[maybe_unused]] std::uintptr_t address) {
#if defined(__linux__)
  return address >= reinterpret_cast<std::uintptr_t>(&__executable_start) &&
         address < reinterpret_cast<std::uintptr_t>(&_end);
#else
  return false;
#endif
}

std::uint64_t bytes_in(const std::vector<AddressRange>& ranges, std::uintptr_t begin,
                       std::uintptr_t end) {
  std::uint64_t bytes = 0;
  for (const AddressRange& r : ranges) {
    const std::uintptr_t from = std::max(r.begin, begin), to = std::min(r.end, end);
    if (from < to) bytes += to - from;
  }
  return bytes;
}

void append(std::vector<AddressRange>& ranges, AddressRange next) {
  if (!ranges.empty() && ranges.back().end == next.begin) {
    ranges.back().end = next.end;
  } else {
    ranges.push_back(next);
  }
}

}  // namespace

void set_observer(Observer* o) {
  observer = o;
}

void Observer::add_memory(std::uintptr_t begin, std::size_t bytes, std::string name) {
  memory_[begin] = {begin + bytes, std::move(name), {}};
  last_memory_ = nullptr;
}

void Observer::remove_memory(std::uintptr_t begin) {
  memory_.erase(begin);
  last_memory_ = nullptr;
}

void Observer::clear() {
  records.clear();
  hazards.clear();
  epoch_begin_ = 0;
}

// ---- accesses

Observer::Memory* Observer::find(std::uintptr_t address, std::size_t bytes) {
  if (last_memory_ == nullptr || address < last_begin_ || address + bytes > last_memory_->end) {
    auto after = memory_.upper_bound(address);
    if (after == memory_.begin()) return nullptr;
    auto at = std::prev(after);
    if (address + bytes > at->second.end) return nullptr;
    last_begin_ = at->first;
    last_memory_ = &at->second;
  }
  return last_memory_;
}

void Observer::access(std::uintptr_t address, std::size_t bytes, bool writes,
                      const void* instruction) {
  GroupRunner* lane = GroupRunner::current();
  if (lane == nullptr || lane->is_stack(reinterpret_cast<const void*>(address))) return;
  if (address >= args_ && address < args_ + dispatch_->args.size()) return;
  const std::int64_t offset = lane->shared_offset(reinterpret_cast<const void*>(address));
  if (offset >= 0) return shared_access(*lane, static_cast<std::size_t>(offset), bytes, writes);
  Memory* memory = find(address, bytes);
  if (memory == nullptr) {
    if (!writes && in_program(address)) return;
    lane->fail(out_of_bounds(*lane, address, bytes, writes));
  }
  (writes ? memory->traffic.bytes_written : memory->traffic.bytes_read) += bytes;
  for (std::uintptr_t a = address; a < address + bytes; ++a) {
    Page& page = pages_[a / kPageBytes];
    (writes ? page.written : page.read).set(a % kPageBytes);
  }
  count_sectors(*lane, *memory, address, bytes, writes, instruction);
}

void Observer::shared_access(GroupRunner& lane, std::size_t offset, std::size_t bytes,
                             bool writes) {
  if (offset + bytes > dispatch_->kernel->shared_bytes) {
    lane.fail(fmt::format("thread {} goes past the end of threadgroup memory", lane.thread()));
  }
  for (std::size_t i = offset; i < offset + bytes; ++i) {
    if (writes) {
      shared_written_.set(i);
    } else if (!shared_written_.test(i)) {
      lane.fail(fmt::format("thread {} reads byte {} of threadgroup memory, which nobody wrote",
                            lane.thread(), i));
    }
  }
}

// Lanes run one after the other: their n-th time at an instruction belongs together.
void Observer::count_sectors(GroupRunner& lane, Memory& memory, std::uintptr_t address,
                             std::size_t bytes, bool writes, const void* instruction) {
  Instruction& at = instructions_[instruction];
  if (at.times.empty()) at.times.assign(dispatch_->threads, 0);
  const std::uint64_t time = at.times[lane.thread()]++;
  const std::uint64_t simd = lane.thread() / kSimdLanes;
  const std::uint64_t key =
      (reinterpret_cast<std::uintptr_t>(instruction) * 0x9e3779b97f4a7c15ull) ^ (time << 5) ^ simd;
  Fetch& fetch = fetches_[key];
  fetch.memory = &memory;
  fetch.writes = writes;
  for (std::uintptr_t s = address / kSectorBytes; s <= (address + bytes - 1) / kSectorBytes; ++s)
    fetch.sectors.push_back(s);
}

std::string Observer::out_of_bounds(const GroupRunner& lane, std::uintptr_t address,
                                    std::size_t bytes, bool writes) {
  // The argument that points nearest: into the piece of memory that ends before or begins behind
  // the address.
  std::string nearest = "no argument points near";
  std::uintptr_t least = ~std::uintptr_t{0};
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= dispatch_->args.size();
       at += sizeof(std::uintptr_t)) {
    std::uintptr_t pointer;
    std::memcpy(&pointer, dispatch_->args.data() + at, sizeof pointer);
    auto after = memory_.upper_bound(pointer);
    if (after == memory_.begin()) continue;
    const auto& [begin, memory] = *std::prev(after);
    if (pointer >= memory.end) continue;
    const std::uintptr_t distance =
        address >= begin ? address - std::min(address, memory.end) : begin - address;
    if (distance >= least) continue;
    least = distance;
    nearest = fmt::format("argument {} (at byte {}) is in '{}' of {} bytes, offset {}",
                          at / sizeof pointer, at, memory.name, memory.end - begin,
                          static_cast<std::int64_t>(address - begin));
  }
  return fmt::format("thread {} {} {} bytes outside the buffers: {}", lane.thread(),
                     writes ? "writes" : "reads", bytes, nearest);
}

// ---- dispatches

void Observer::begin_dispatch(const Dispatch& dispatch, const void* args) {
  dispatch_ = &dispatch;
  args_ = reinterpret_cast<std::uintptr_t>(args);
  pages_.clear();
  for (auto& [begin, memory] : memory_) {
    memory.traffic = {};
    memory.traffic.buffer = memory.name;
  }
}

void Observer::begin_group() {
  shared_written_.reset();
  instructions_.clear();
  fetches_.clear();
}

namespace {

std::uint64_t distinct(std::vector<std::uintptr_t>& sectors) {
  std::sort(sectors.begin(), sectors.end());
  sectors.erase(std::unique(sectors.begin(), sectors.end()), sectors.end());
  return sectors.size();
}

}  // namespace

void Observer::end_group() {
  std::map<std::pair<Memory*, bool>, std::vector<std::uintptr_t>> of_group;
  for (auto& [key, fetch] : fetches_) {
    BufferTraffic& traffic = fetch.memory->traffic;
    (fetch.writes ? traffic.sectors_written : traffic.sectors_read) += distinct(fetch.sectors);
    auto& all = of_group[{fetch.memory, fetch.writes}];
    all.insert(all.end(), fetch.sectors.begin(), fetch.sectors.end());
  }
  for (auto& [which, sectors] : of_group) {
    const auto& [memory, writes] = which;
    BufferTraffic& traffic = memory->traffic;
    (writes ? traffic.group_written : traffic.group_read) += kSectorBytes * distinct(sectors);
  }
}

std::vector<AddressRange> Observer::ranges(bool writes) {
  std::vector<AddressRange> found;
  for (const auto& [index, page] : pages_) {
    const std::bitset<kPageBytes>& bits = writes ? page.written : page.read;
    const std::uintptr_t base = index * kPageBytes;
    if (bits.all()) {
      append(found, {base, base + kPageBytes});
    } else if (bits.any()) {
      for (std::size_t i = 0; i < kPageBytes; ++i) {
        if (bits.test(i)) append(found, {base + i, base + i + 1});
      }
    }
  }
  return found;
}

void Observer::end_dispatch() {
  DispatchRecord record{dispatch_->kernel, ranges(false), ranges(true), {}};
  for (auto& [begin, memory] : memory_) {
    memory.traffic.unique_read = bytes_in(record.reads, begin, memory.end);
    memory.traffic.unique_written = bytes_in(record.writes, begin, memory.end);
    if (memory.traffic.bytes_read + memory.traffic.bytes_written > 0)
      record.traffic.push_back(memory.traffic);
  }
  records.push_back(std::move(record));
  find_hazards();
}

// ---- hazards

std::string Observer::name_of(std::uintptr_t address) const {
  auto after = memory_.upper_bound(address);
  if (after == memory_.begin()) return "?";
  const auto& [begin, memory] = *std::prev(after);
  return fmt::format("'{}' + {}", memory.name, address - begin);
}

void Observer::hazard(std::size_t first, std::size_t second, const std::vector<AddressRange>& a,
                      const std::vector<AddressRange>& b, const char* what) {
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const AddressRange both = {std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (both.begin < both.end) {
      hazards.push_back(
          {first, second, both,
           fmt::format("{} (dispatch {}) {} {} (dispatch {}) at {}, and no barrier is between",
                       records[second].kernel->name, second, what, records[first].kernel->name,
                       first, name_of(both.begin))});
      return;
    }
    (a[i].end < b[j].end ? i : j)++;
  }
}

void Observer::find_hazards() {
  const std::size_t second = records.size() - 1;
  for (std::size_t first = epoch_begin_; first < second; ++first) {
    hazard(first, second, records[first].writes, records[second].reads,
           "reads what was written by");
    hazard(first, second, records[first].writes, records[second].writes,
           "writes what was written by");
    hazard(first, second, records[first].reads, records[second].writes, "writes what is read by");
  }
}

}  // namespace lily::gpu

// ---- what the compilers call. Clang and g++ agree on the names; wider accesses and unaligned ones
// have their own.
#if !defined(LILY_GPU_TSAN)
namespace {
inline void see(const void* address, std::size_t bytes, bool writes, const void* instruction) {
  if (lily::gpu::observer != nullptr) {
    lily::gpu::observer->access(reinterpret_cast<std::uintptr_t>(address), bytes, writes,
                                instruction);
  }
}
}  // namespace

#define LILY_SEE(name, bytes, writes)                         \
  void name(void* address) {                                  \
    see(address, bytes, writes, __builtin_return_address(0)); \
  }
#define LILY_SEE_SIZE(bytes)                           \
  LILY_SEE(__tsan_read##bytes, bytes, false)           \
  LILY_SEE(__tsan_write##bytes, bytes, true)           \
  LILY_SEE(__tsan_unaligned_read##bytes, bytes, false) \
  LILY_SEE(__tsan_unaligned_write##bytes, bytes, true) \
  LILY_SEE(__tsan_volatile_read##bytes, bytes, false)  \
  LILY_SEE(__tsan_volatile_write##bytes, bytes, true)
extern "C" {
// From kernels themselves (dialect/emulator.h).
void lily_gpu_see(const void* address, unsigned long bytes, bool writes, const void* instruction);
void lily_gpu_see(const void* address, unsigned long bytes, bool writes, const void* instruction) {
  see(address, bytes, writes, instruction);
}
LILY_SEE_SIZE(1)
LILY_SEE_SIZE(2)
LILY_SEE_SIZE(4)
LILY_SEE_SIZE(8)
LILY_SEE_SIZE(16)
void __tsan_read_range(void* address, std::size_t bytes) {
  see(address, bytes, false, __builtin_return_address(0));
}
void __tsan_write_range(void* address, std::size_t bytes) {
  see(address, bytes, true, __builtin_return_address(0));
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
unsigned __tsan_atomic32_fetch_add(volatile unsigned* p, unsigned n, int) {
  see(const_cast<const unsigned*>(p), 4, true, __builtin_return_address(0));
  return __atomic_fetch_add(p, n, __ATOMIC_RELAXED);
}
void* __tsan_memcpy(void* to, const void* from, std::size_t bytes) {
  see(from, bytes, false, __builtin_return_address(0));
  see(to, bytes, true, __builtin_return_address(0));
  return std::memcpy(to, from, bytes);
}
void* __tsan_memset(void* to, int value, std::size_t bytes) {
  see(to, bytes, true, __builtin_return_address(0));
  return std::memset(to, value, bytes);
}
}
#endif
