// An NVIDIA GPU, through CUDA's driver. context.h, memory.h, modules.h, recording.h and
// timing.h are its parts.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "backend/gpu/cuda/memory.h"
#include "backend/gpu/cuda/modules.h"
#include "backend/gpu/cuda/open.h"
#include "backend/gpu/cuda/recording.h"
#include "backend/gpu/device.h"

namespace lily::gpu::cuda {

class CudaDevice final : public Device {
 public:
  static Result<std::unique_ptr<CudaDevice>> create(UploadProgress on_upload);
  ~CudaDevice() override;

  const BackendInfo& info() const override { return info_; }
  Result<Buffer> allocate(std::size_t bytes, std::string_view what) override;
  // A copy on the card.
  Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner) override;
  // A failure is told by the next wait().
  void write(void* to, std::span<const std::byte> bytes) override;
  Result<void> read(const void* from, std::span<std::byte> bytes) override;
  Result<void> load(std::span<const Kernel> kernels) override;
  Result<std::shared_ptr<Recording>> build(const Program& program) override;
  void submit(std::shared_ptr<Recording> recording, Ticket ticket) override;
  Result<void> wait(Ticket ticket) override;
  Result<ProgramTime> time(const Program& program, int repeats) override;

 private:
  struct Replay {
    Ticket ticket;
    CUevent done;
    std::shared_ptr<Recording> recording;  // Kept while it runs.
  };

  CudaDevice(std::shared_ptr<Context> context, std::shared_ptr<Memory> memory);
  Result<CUevent> take_event();
  Result<void> launch(std::shared_ptr<Recording> recording, Ticket ticket);
  // Of an error, the first one of a ticket is kept for the wait() that covers it.
  void note(Ticket ticket, Result<void> result);

  std::shared_ptr<Context> context_;
  std::shared_ptr<Memory> memory_;
  Modules modules_;
  BackendInfo info_;
  UploadProgress on_upload_;
  CUstream replays_ = nullptr;
  std::deque<Replay> in_flight_;
  std::vector<CUevent> events_;  // Free ones.
  Ticket last_ = 0;
  std::map<Ticket, Error> failed_;  // Not yet told.
};

}  // namespace lily::gpu::cuda
