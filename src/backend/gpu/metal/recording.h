// A program as Metal replays it: pipelines, barriers, and the arguments of all launches in one
// buffer, written once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/gpu/device.h"
#include "backend/gpu/metal/memory.h"
#include "backend/gpu/metal/pipelines.h"

namespace lily::gpu::metal {

// Between the arguments of two launches: an offset that every GPU takes for constant memory.
inline constexpr std::size_t kArgumentStep = 256;

class MetalRecording final : public Device::Recording {
 public:
  // Pipelines outlive it.
  static Result<std::shared_ptr<MetalRecording>> build(const Program& program,
                                                       const Pipelines& pipelines, Memory& memory);
  void encode(const Encoder& encoder) const;
  // "330 kernels, 'embed' to 'choose_rows'"
  const std::string& what() const { return what_; }

 private:
  struct Step {
    Id pipeline;
    Size3 groups, threads;
    std::size_t arguments;  // Offset.
    bool barrier_before;
  };

  std::vector<Step> steps_;
  Buffer arguments_;
  Id arguments_buffer_ = nullptr;
  std::string what_;
};

}  // namespace lily::gpu::metal
