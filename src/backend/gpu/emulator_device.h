// The device that every machine has: programs replayed by the emulator, on a thread of their own,
// in memory that the host itself cannot touch while nothing runs, as if it were a card's.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "backend/gpu/device.h"
#include "backend/gpu/emulator/emulator.h"
#include "backend/gpu/job_thread.h"

namespace lily::gpu {

class EmulatorDevice final : public Device {
 public:
  // With `observe` every replay is checked: kDevice where launches touch what they did not declare,
  // or depend on each other with no barrier between.
  static Result<std::unique_ptr<EmulatorDevice>> create(const EmulatorOptions& options);
  ~EmulatorDevice() override;

  const BackendInfo& info() const override { return info_; }
  Result<Buffer> allocate(std::size_t bytes, std::string_view what) override;
  Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner) override;
  void write(void* to, std::span<const std::byte> bytes) override;
  Result<void> read(const void* from, std::span<std::byte> bytes) override;
  Result<void> load(std::span<const Kernel>) override { return {}; }
  Result<std::shared_ptr<Recording>> build(const Program& program) override;
  void submit(std::shared_ptr<Recording> recording, Ticket ticket) override;
  Result<void> wait(Ticket ticket) override;
  // By the host's clock.
  Result<ProgramTime> time(const Program& program, int repeats) override;

  // For tests that dispatch launches themselves: `run` runs behind all replays, on their thread,
  // and kernels may touch the memory meanwhile.
  Result<void> with_memory(const std::function<Result<void>(Emulator&)>& run);

 private:
  class Memory;
  EmulatorDevice(std::unique_ptr<Emulator> emulator, const EmulatorOptions& options);
  Result<void> replay(Emulator& emulator, const Program& program) const;
  void replayed(Ticket ticket, Result<void> result);

  bool observe_;
  BackendInfo info_;
  std::shared_ptr<Memory> memory_;  // Buffers hold it too.

  Ticket last_ = 0;   // Submitted. GpuBackend has tickets that never came so far.
  std::mutex mutex_;  // Of what follows.
  std::condition_variable done_;
  Ticket done_up_to_ = 0;
  std::map<Ticket, Error> failed_;  // Not yet told.

  JobThread thread_;  // The last member, so it ends before what its jobs use.
};

}  // namespace lily::gpu
