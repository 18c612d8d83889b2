// Sees every memory access of observed kernels: bounds, bytes read and written, what a dispatch
// touched.
//
// Kernels are compiled a second time with the compiler's instrumentation for ThreadSanitizer, which
// calls a function before each access; observer.cc defines those functions itself, so that no
// sanitizer's runtime is needed and any build can do it.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/gpu/emulator/emulator.h"
#include "backend/gpu/emulator/group_runner.h"

namespace lily::gpu {

class Observer {
 public:
  void add_memory(std::uintptr_t begin, std::size_t bytes, std::string name);
  void remove_memory(std::uintptr_t begin);

  void begin_dispatch(const Dispatch& dispatch, const void* args);
  void begin_group();
  void end_group();
  void end_dispatch();
  void barrier() { epoch_begin_ = records.size(); }
  void clear();

  // From the running lane, before the access is made.
  void access(std::uintptr_t address, std::size_t bytes, bool writes, const void* instruction);

  std::vector<DispatchRecord> records;
  std::vector<Hazard> hazards;

 private:
  static constexpr std::size_t kPageBytes = 4096;
  struct Memory {
    std::uintptr_t end;
    std::string name;
    BufferTraffic traffic;
  };
  struct Page {
    std::bitset<kPageBytes> read, written;
  };
  struct Instruction {
    std::vector<std::uint32_t> times;  // per thread: executions so far in this group
    bool writes = false;
  };
  struct Fetch {
    Memory* memory;
    bool writes;
    std::vector<std::uintptr_t> sectors;
  };
  void shared_access(GroupRunner& lane, std::size_t offset, std::size_t bytes, bool writes);
  void count_sectors(GroupRunner& lane, Memory& memory, std::uintptr_t address, std::size_t bytes,
                     bool writes, const void* instruction);
  std::string out_of_bounds(const GroupRunner& lane, std::uintptr_t address, std::size_t bytes,
                            bool writes);
  Memory* find(std::uintptr_t address, std::size_t bytes);
  std::string name_of(std::uintptr_t address) const;
  std::vector<AddressRange> ranges(bool writes);
  void find_hazards();
  void hazard(std::size_t first, std::size_t second, const std::vector<AddressRange>& a,
              const std::vector<AddressRange>& b, const char* what);

  std::map<std::uintptr_t, Memory> memory_;  // by begin
  Memory* last_memory_ = nullptr;
  std::uintptr_t last_begin_ = 0;
  const Dispatch* dispatch_ = nullptr;
  std::uintptr_t args_ = 0;
  std::map<std::uintptr_t, Page> pages_;  // of the current dispatch
  std::bitset<32768> shared_written_;     // of the current group
  std::unordered_map<const void*, Instruction> instructions_;
  std::unordered_map<std::uint64_t, Fetch> fetches_;
  std::size_t epoch_begin_ = 0;
};

// The observer that accesses go to; null: they are ignored.
void set_observer(Observer* observer);

}  // namespace lily::gpu
