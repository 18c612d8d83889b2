// The device that every machine has: programs replayed at once by the emulator, in memory that the
// host itself cannot touch, as if it were a card's.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "backend/gpu/device.h"
#include "backend/gpu/emulator/emulator.h"

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

  // For tests that dispatch launches themselves: kernels may touch the memory while `run` runs.
  Result<void> with_memory(const std::function<Result<void>(Emulator&)>& run);

 private:
  class Memory;
  EmulatorDevice(std::unique_ptr<Emulator> emulator, const EmulatorOptions& options);
  Result<void> replay(const Program& program);

  bool observe_;
  BackendInfo info_;
  std::shared_ptr<Memory> memory_;  // Buffers hold it too.
  Ticket failed_at_ = 0;
  std::optional<Error> failure_;  // The first one not yet told.
};

}  // namespace lily::gpu
