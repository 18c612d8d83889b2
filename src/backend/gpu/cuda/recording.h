// A program, lowered, as CUDA replays it: a graph whose nodes depend on those of the stage before.
#pragma once

#include <memory>
#include <span>

#include "backend/gpu/cuda/modules.h"
#include "backend/gpu/device.h"

namespace lily::gpu::cuda {

class CudaRecording final : public Device::Recording {
 public:
  static Result<std::shared_ptr<CudaRecording>> build(std::span<const Node> nodes,
                                                      const Modules& modules,
                                                      std::shared_ptr<Context> context);
  ~CudaRecording() override;
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;

  CUgraphExec graph() const { return executable_; }

 private:
  explicit CudaRecording(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  Result<void> add_nodes(std::span<const Node> nodes, const Modules& modules);

  std::shared_ptr<Context> context_;
  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
};

}  // namespace lily::gpu::cuda
