// Memory and replays of the emulator device.
#include "backend/gpu/emulator_device.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "backend/gpu/declared.h"
#include "base/check.h"

namespace lily::gpu {
namespace {

constexpr int kOpen = PROT_READ | PROT_WRITE;

class EmulatorRecording final : public Device::Recording {
 public:
  explicit EmulatorRecording(const Program& program) : program_(program) {}
  const Program& program() const { return program_; }

 private:
  Program program_;
};

}  // namespace

// Pages that nobody may touch unless protect() opens them; adopted memory is the host's and stays
// as it is.
class EmulatorDevice::Memory {
 public:
  explicit Memory(std::unique_ptr<Emulator> emulator) : emulator_(std::move(emulator)) {}

  Result<void*> allocate(std::size_t bytes, std::string_view what) {
    const std::lock_guard lock(mutex_);
    const std::size_t mapped = std::max<std::size_t>(bytes, 1);
    void* pages =
        mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) {
      return Error{ErrorCode::kNoMemory,
                   fmt::format("allocating {}: {} bytes: {}", what, bytes, std::strerror(errno))};
    }
    pages_[pages] = mapped;
    emulator_->add_memory(pages, bytes, std::string(what));
    return pages;
  }
  void adopt(std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    emulator_->add_memory(bytes.data(), bytes.size(), "weights");
  }
  void forget(void* address) {
    const std::lock_guard lock(mutex_);
    emulator_->remove_memory(address);
    if (const auto pages = pages_.extract(address)) munmap(address, pages.mapped());
  }

  void protect_all(int protection) {
    const std::lock_guard lock(mutex_);
    for (const auto& [address, bytes] : pages_)
      LILY_CHECK(mprotect(address, bytes, protection) == 0);
  }
  // The buffer that holds an address.
  void protect(const void* address, int protection) {
    const std::lock_guard lock(mutex_);
    const auto next = pages_.upper_bound(const_cast<void*>(address));
    if (next == pages_.begin()) return;
    const auto& [begin, bytes] = *std::prev(next);
    if (address < static_cast<std::byte*>(begin) + bytes)
      LILY_CHECK(mprotect(begin, bytes, protection) == 0);
  }

  Emulator& emulator() { return *emulator_; }

 private:
  std::mutex mutex_;  // A buffer may be freed by any thread.
  std::unique_ptr<Emulator> emulator_;
  std::map<void*, std::size_t> pages_;
};

Result<std::unique_ptr<EmulatorDevice>> EmulatorDevice::create(const EmulatorOptions& options) {
  LILY_TRY(auto emulator, Emulator::create(options));
  return std::unique_ptr<EmulatorDevice>(new EmulatorDevice(std::move(emulator), options));
}

EmulatorDevice::EmulatorDevice(std::unique_ptr<Emulator> emulator, const EmulatorOptions& options)
    : observe_(options.observe),
      info_{.name = "emulator",
            .description = "the GPU's kernels on this processor, bf16 operands",
            .layout = WeightLayout::kRowMajor,
            .kv_element_bytes = 2},
      memory_(std::make_shared<Memory>(std::move(emulator))) {}

EmulatorDevice::~EmulatorDevice() = default;

Result<Buffer> EmulatorDevice::allocate(std::size_t bytes, std::string_view what) {
  LILY_TRY(void* const address, memory_->allocate(bytes, what));
  return Buffer(address, bytes,
                std::shared_ptr<void>(address, [memory = memory_](void* p) { memory->forget(p); }));
}

Result<Buffer> EmulatorDevice::adopt(std::span<const std::byte> bytes,
                                     std::shared_ptr<void> owner) {
  memory_->adopt(bytes);
  void* const address = const_cast<std::byte*>(bytes.data());
  const auto forget = [memory = memory_, held = std::move(owner)](void* p) { memory->forget(p); };
  return Buffer(address, bytes.size(), std::shared_ptr<void>(address, forget));
}

void EmulatorDevice::write(void* to, std::span<const std::byte> bytes) {
  memory_->protect(to, kOpen);
  std::memcpy(to, bytes.data(), bytes.size());
  memory_->protect(to, PROT_NONE);
}

Result<void> EmulatorDevice::read(const void* from, std::span<std::byte> bytes) {
  memory_->protect(from, kOpen);
  std::memcpy(bytes.data(), from, bytes.size());
  memory_->protect(from, PROT_NONE);
  return {};
}

Result<std::shared_ptr<Device::Recording>> EmulatorDevice::build(const Program& program) {
  return std::make_shared<EmulatorRecording>(program);
}

Result<void> EmulatorDevice::with_memory(const std::function<Result<void>(Emulator&)>& run) {
  memory_->protect_all(kOpen);
  auto result = run(memory_->emulator());
  memory_->protect_all(PROT_NONE);
  return result;
}

Result<void> EmulatorDevice::replay(const Program& program) {
  Emulator& emulator = memory_->emulator();
  if (observe_) emulator.clear_records();
  LILY_RETURN_IF_ERROR(dispatch(emulator, program, 0, program.launches().size()));
  emulator.barrier();
  if (!observe_) return {};
  if (!emulator.hazards().empty())
    return Error{ErrorCode::kDevice, emulator.hazards().front().message};
  if (auto fault = undeclared(program, emulator.records()))
    return Error{ErrorCode::kDevice, *std::move(fault)};
  return {};
}

void EmulatorDevice::submit(std::shared_ptr<Recording> recording, Ticket ticket) {
  const auto& program = static_cast<const EmulatorRecording&>(*recording).program();
  auto result = with_memory([&](Emulator&) { return replay(program); });
  if (result || failure_) return;
  failed_at_ = ticket;
  failure_ = std::move(result).error();
}

Result<void> EmulatorDevice::wait(Ticket ticket) {
  if (!failure_ || failed_at_ > ticket) return {};
  return *std::exchange(failure_, std::nullopt);
}

}  // namespace lily::gpu
