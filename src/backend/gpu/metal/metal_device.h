// The GPU of a Mac, through Metal. memory.h, residency.h, pipelines.h, recording.h and queue.h are
// its parts.
#pragma once

#include <memory>

#include "backend/gpu/device.h"
#include "backend/gpu/metal/memory.h"
#include "backend/gpu/metal/pipelines.h"
#include "backend/gpu/metal/queue.h"
#include "backend/gpu/metal/residency.h"

namespace lily::gpu::metal {

struct MetalOptions {
  std::uint64_t answer_limit_ms = 60'000;  // Of a pass; see queue.h.
  ResidencyTimes residency = {};
};

class MetalDevice final : public Device {
 public:
  // kUnsupported: an older system than macOS 15, or a GPU before the M1's.
  static Result<std::unique_ptr<MetalDevice>> create(const MetalOptions& options = {});

  const BackendInfo& info() const override { return info_; }
  Result<Buffer> allocate(std::size_t bytes, std::string_view what) override;
  Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner) override;
  void write(void* to, std::span<const std::byte> bytes) override;
  Result<void> read(const void* from, std::span<std::byte> bytes) override;
  Result<void> load(std::span<const Kernel> kernels) override;
  Result<std::shared_ptr<Recording>> build(const Program& program) override;
  void submit(std::shared_ptr<Recording> recording, Ticket ticket) override;
  Result<void> wait(Ticket ticket) override;
  // A command buffer a launch, by the GPU's clock.
  Result<ProgramTime> time(const Program& program, int repeats) override;

 private:
  MetalDevice(const Language& language, std::shared_ptr<Memory> memory,
              std::unique_ptr<Queue> queue, const ResidencyTimes& residency);

  const Language& language_;
  BackendInfo info_;
  std::shared_ptr<Memory> memory_;  // Buffers hold it too.
  ResidencyKeeper residency_;
  Pipelines pipelines_;
  std::unique_ptr<Queue> queue_;  // Goes first: it waits for replays.
};

}  // namespace lily::gpu::metal
