// Memory and replays of the emulator device.
#include "backend/gpu/emulator_device.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "backend/gpu/declared.h"
#include "backend/gpu/median.h"
#include "base/check.h"
#include "base/stopwatch.h"

namespace lily::gpu {
namespace {

class EmulatorRecording final : public Device::Recording {
 public:
  explicit EmulatorRecording(const Program& program) : program_(program) {}
  const Program& program() const { return program_; }

 private:
  Program program_;
};

}  // namespace

// Pages that nobody may touch but kernels while something runs, and the host through write() and
// read(). Adopted memory is the host's and stays as it is.
class EmulatorDevice::Memory {
 public:
  explicit Memory(std::unique_ptr<Emulator> emulator) : emulator_(std::move(emulator)) {}

  Result<void*> allocate(std::size_t bytes, std::string_view what) {
    const std::scoped_lock lock(running_, mutex_);
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
    const std::scoped_lock lock(running_, mutex_);
    emulator_->add_memory(bytes.data(), bytes.size(), "weights");
  }
  void forget(void* address) {
    const std::scoped_lock lock(running_, mutex_);
    emulator_->remove_memory(address);
    const auto pages = pages_.extract(address);
    if (!pages) return;
    for (const auto& replay : in_flight_)
      LILY_CHECK(!replay.recording->program().names({address, pages.mapped()}));
    munmap(address, pages.mapped());
  }

  // One at a time, with all memory open and none coming or going.
  Result<void> run(const std::function<Result<void>(Emulator&)>& job) {
    const std::lock_guard lock(running_);
    protect_all(PROT_READ | PROT_WRITE);
    auto result = job(*emulator_);
    protect_all(PROT_NONE);
    return result;
  }

  // The host's copies, kept to the rule of device.h.
  void write(void* to, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    const Range range{to, bytes.size()};
    for (const auto& replay : in_flight_) {
      LILY_CHECK(!replay.recording->program().reads(range));
      LILY_CHECK(!replay.recording->program().writes(range));
    }
    open_for(to, [&] { std::memcpy(to, bytes.data(), bytes.size()); });
  }
  void read(const void* from, std::span<std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    for (const auto& replay : in_flight_)
      LILY_CHECK(!replay.recording->program().writes({from, bytes.size()}));
    open_for(from, [&] { std::memcpy(bytes.data(), from, bytes.size()); });
  }

  void submitted(Ticket ticket, std::shared_ptr<EmulatorRecording> recording) {
    const std::lock_guard lock(mutex_);
    in_flight_.push_back({ticket, std::move(recording)});
  }
  void waited_for(Ticket ticket) {
    const std::lock_guard lock(mutex_);
    while (!in_flight_.empty() && in_flight_.front().ticket <= ticket) in_flight_.pop_front();
  }

 private:
  struct InFlight {
    Ticket ticket;
    std::shared_ptr<EmulatorRecording> recording;
  };

  void protect_all(int protection) {
    const std::lock_guard lock(mutex_);
    for (const auto& [address, bytes] : pages_)
      LILY_CHECK(mprotect(address, bytes, protection) == 0);
    open_ = protection != PROT_NONE;
  }
  // Opens the buffer that holds an address, where it is closed.
  template <typename Copy>
  void open_for(const void* address, const Copy& copy) {
    const auto next = pages_.upper_bound(const_cast<void*>(address));
    if (open_ || next == pages_.begin()) return copy();
    const auto& [begin, bytes] = *std::prev(next);
    LILY_CHECK(mprotect(begin, bytes, PROT_READ | PROT_WRITE) == 0);
    copy();
    LILY_CHECK(mprotect(begin, bytes, PROT_NONE) == 0);
  }

  std::mutex running_;  // Held while kernels run. Before mutex_.
  std::mutex mutex_;    // A buffer may be freed by any thread.
  std::unique_ptr<Emulator> emulator_;
  std::map<void*, std::size_t> pages_;
  bool open_ = false;
  std::deque<InFlight> in_flight_;
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
            .kv_element_bytes = 2,
            .runs_ahead = true},
      memory_(std::make_shared<Memory>(std::move(emulator))) {}

EmulatorDevice::~EmulatorDevice() {
  thread_.run_dry();
  memory_->waited_for(last_);
}

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
  memory_->write(to, bytes);
}

Result<void> EmulatorDevice::read(const void* from, std::span<std::byte> bytes) {
  memory_->read(from, bytes);
  return {};
}

Result<std::shared_ptr<Device::Recording>> EmulatorDevice::build(const Program& program) {
  return std::make_shared<EmulatorRecording>(program);
}

Result<void> EmulatorDevice::with_memory(const std::function<Result<void>(Emulator&)>& run) {
  Result<void> result;
  thread_.push([&] { result = memory_->run(run); });
  thread_.run_dry();
  return result;
}

Result<void> EmulatorDevice::replay(Emulator& emulator, const Program& program) const {
  if (observe_) emulator.clear_records();
  const auto done = dispatch(emulator, program, 0, program.launches().size());
  emulator.barrier();
  LILY_RETURN_IF_ERROR(done);
  if (!observe_) return {};
  if (!emulator.hazards().empty())
    return Error{ErrorCode::kDevice, emulator.hazards().front().message};
  if (auto fault = undeclared(program, emulator.records()))
    return Error{ErrorCode::kDevice, *std::move(fault)};
  return {};
}

void EmulatorDevice::replayed(Ticket ticket, Result<void> result) {
  const std::lock_guard lock(mutex_);
  if (!result) failed_.emplace(ticket, std::move(result).error());
  done_up_to_ = ticket;
  done_.notify_all();
}

void EmulatorDevice::submit(std::shared_ptr<Recording> recording, Ticket ticket) {
  auto held = std::static_pointer_cast<EmulatorRecording>(std::move(recording));
  memory_->submitted(ticket, held);
  last_ = ticket;
  thread_.push([this, ticket, held = std::move(held)] {
    replayed(ticket,
             memory_->run([&](Emulator& emulator) { return replay(emulator, held->program()); }));
  });
}

Result<void> EmulatorDevice::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return done_up_to_ >= std::min(ticket, last_); });
  memory_->waited_for(ticket);
  std::optional<Error> first;
  while (!failed_.empty() && failed_.begin()->first <= ticket) {
    auto told = std::move(failed_.extract(failed_.begin()).mapped());
    if (!first) first = std::move(told);
  }
  if (first) return *std::move(first);
  return {};
}

Result<ProgramTime> EmulatorDevice::time(const Program& program, int repeats) {
  LILY_CHECK(repeats > 0);
  const auto launches = program.launches();
  std::vector<std::vector<double>> runs(launches.size());
  std::vector<double> whole;
  const auto run_once = [&](Emulator& emulator) -> Result<void> {
    if (observe_) emulator.clear_records();
    const Stopwatch all;
    for (std::size_t i = 0; i < launches.size(); ++i) {
      const Stopwatch one;
      LILY_RETURN_IF_ERROR(dispatch(emulator, program, i, i + 1));
      emulator.barrier();
      runs[i].push_back(one.seconds());
    }
    whole.push_back(all.seconds());
    return {};
  };
  for (int i = 0; i < repeats; ++i) LILY_RETURN_IF_ERROR(with_memory(run_once));
  ProgramTime out{.launches = {}, .seconds = median(std::move(whole))};
  for (std::size_t i = 0; i < launches.size(); ++i)
    out.launches.push_back({launches[i].kernel->name, {i}, median(std::move(runs[i]))});
  return out;
}

}  // namespace lily::gpu
