// From launches to what an encoder is told.
#include "backend/gpu/metal/recording.h"

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"

namespace lily::gpu::metal {
namespace {

// Every word that is `from` becomes `to`: pointers come first in arguments, 8 bytes each.
int replace_words(std::span<std::byte> bytes, std::uint64_t from, std::uint64_t to) {
  int n_replaced = 0;
  for (std::size_t at = 0; at + sizeof from <= bytes.size(); at += sizeof from) {
    if (std::memcmp(&bytes[at], &from, sizeof from) != 0) continue;
    std::memcpy(&bytes[at], &to, sizeof to);
    ++n_replaced;
  }
  return n_replaced;
}

// The launch's arguments with the GPU's addresses of adopted memory. What a launch declares of it
// begins where one of its arguments points.
Result<std::vector<std::byte>> arguments_for_gpu(const Launch& launch, const Memory& memory) {
  auto args = launch.args;
  for (const Range& range : launch.reads) {
    if (!Memory::adopted(range.address)) continue;
    auto address = memory.gpu_address(range);
    if (!address) return with_context(launch.kernel->name, std::move(address).error());
    // Two ranges that begin at one place are found the first time.
    replace_words(args, reinterpret_cast<std::uintptr_t>(range.address), *address);
  }
  return args;
}

std::size_t step_of(const Launch& launch) {
  return round_up(launch.args.size(), kArgumentStep);
}

std::string summary(std::span<const Launch> launches) {
  if (launches.empty()) return "no kernels";
  return fmt::format("{} kernels, '{}' to '{}'", launches.size(), launches.front().kernel->name,
                     launches.back().kernel->name);
}

}  // namespace

Result<std::shared_ptr<MetalRecording>> MetalRecording::build(const Program& program,
                                                              const Pipelines& pipelines,
                                                              Memory& memory) {
  const auto launches = program.launches();
  auto recording = std::make_shared<MetalRecording>();
  recording->what_ = summary(launches);
  std::size_t bytes = 0;
  for (const Launch& launch : launches) bytes += step_of(launch);
  LILY_TRY(recording->arguments_, memory.allocate(bytes, "arguments of a pass"));
  recording->arguments_buffer_ = memory.buffer(recording->arguments_.address());
  std::byte* const to = memory.host(recording->arguments_.address());
  std::size_t at = 0;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const Launch& launch = launches[i];
    LILY_TRY(const auto args, arguments_for_gpu(launch, memory));
    LILY_TRY(const Id pipeline, pipelines.find(*launch.kernel, launch.threads));
    std::memcpy(to + at, args.data(), args.size());
    recording->steps_.push_back({pipeline,
                                 {launch.grid.x, launch.grid.y, launch.grid.z},
                                 {launch.threads, 1, 1},
                                 at,
                                 program.barrier_before(i)});
    at += step_of(launch);
  }
  return recording;
}

void MetalRecording::encode(const Encoder& encoder) const {
  encoder.arguments(arguments_buffer_);
  Id pipeline = nullptr;
  for (const Step& step : steps_) {
    if (step.barrier_before) encoder.barrier();
    if (step.pipeline != pipeline) encoder.pipeline(step.pipeline);
    pipeline = step.pipeline;
    encoder.arguments_at(step.arguments);
    encoder.dispatch(step.groups, step.threads);
  }
}

}  // namespace lily::gpu::metal
