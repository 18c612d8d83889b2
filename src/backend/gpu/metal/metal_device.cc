// The parts, put together.
#include "backend/gpu/metal/metal_device.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

#include "backend/gpu/median.h"
#include "backend/gpu/metal/open.h"
#include "base/check.h"

namespace lily::gpu::metal {
namespace {

Error unsupported(std::string what) {
  return {ErrorCode::kUnsupported, std::move(what)};
}

std::string description(const Language& language, const Memory& memory) {
  return fmt::format("{}, kernels in Metal {}, bf16 operands, {:.1f} GB for a program",
                     memory.device().name(), language.name,
                     static_cast<double>(memory.budget_bytes()) / 1e9);
}

}  // namespace

MetalDevice::MetalDevice(const Language& language, std::shared_ptr<Memory> memory,
                         std::unique_ptr<Queue> queue, const ResidencyTimes& residency)
    : language_(language),
      info_{.name = "metal",
            .description = description(language, *memory),
            .layout = WeightLayout::kRowMajor,
            .kv_element_bytes = 2,
            .memory_bytes = memory->budget_bytes(),
            .runs_ahead = true},
      memory_(std::move(memory)),
      residency_(memory_, residency),
      queue_(std::move(queue)) {}

Result<std::unique_ptr<MetalDevice>> MetalDevice::create(const MetalOptions& options) {
  const Pool pool;
  const Language* language = newest_language();
  if (language == nullptr) return unsupported("Metal: macOS 15 or later is needed");
  SystemDevice device;
  if (!device) return unsupported("Metal: this machine has no GPU that it drives");
  if (!device.supports(kFamilyApple7))
    return unsupported("Metal: '" + device.name() + "' is older than the GPU of an M1");
  LILY_TRY(auto memory, Memory::create(std::move(device)));
  LILY_TRY(auto queue, Queue::create(memory, options.answer_limit_ms));
  return std::unique_ptr<MetalDevice>(
      new MetalDevice(*language, std::move(memory), std::move(queue), options.residency));
}

Result<Buffer> MetalDevice::allocate(std::size_t bytes, std::string_view what) {
  const Pool pool;
  return memory_->allocate(bytes, what);
}

Result<Buffer> MetalDevice::adopt(std::span<const std::byte> bytes, std::shared_ptr<void> owner) {
  const Pool pool;
  return memory_->adopt(bytes, std::move(owner));
}

void MetalDevice::write(void* to, std::span<const std::byte> bytes) {
  std::memcpy(memory_->host(to), bytes.data(), bytes.size());
}

Result<void> MetalDevice::read(const void* from, std::span<std::byte> bytes) {
  std::memcpy(bytes.data(), memory_->host(from), bytes.size());
  return {};
}

Result<void> MetalDevice::load(std::span<const Kernel> kernels) {
  const Pool pool;
  return pipelines_.load(memory_->device(), language_, kernels);
}

Result<std::shared_ptr<Device::Recording>> MetalDevice::build(const Program& program) {
  const Pool pool;
  return MetalRecording::build(program, pipelines_, *memory_);
}

void MetalDevice::submit(std::shared_ptr<Recording> recording, Ticket ticket) {
  residency_.used();
  queue_->submit(std::static_pointer_cast<MetalRecording>(std::move(recording)), ticket);
}

Result<void> MetalDevice::wait(Ticket ticket) {
  return queue_->wait(ticket);
}

Result<ProgramTime> MetalDevice::time(const Program& program, int repeats) {
  LILY_CHECK(repeats > 0);
  const Pool pool;
  residency_.used();
  LILY_TRY(const auto whole, MetalRecording::build(program, pipelines_, *memory_));
  std::vector<std::shared_ptr<MetalRecording>> parts;
  for (const Launch& launch : program.launches()) {
    Program alone;
    alone.add(launch);
    LILY_TRY(auto part, MetalRecording::build(alone, pipelines_, *memory_));
    parts.push_back(std::move(part));
  }
  std::vector<double> passes;
  std::vector<std::vector<double>> runs(parts.size());
  for (int repeat = 0; repeat < repeats; ++repeat) {
    LILY_TRY(const double pass, queue_->time(whole));
    passes.push_back(pass);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      LILY_TRY(const double run, queue_->time(parts[i]));
      runs[i].push_back(run);
    }
  }
  ProgramTime out{.launches = {}, .seconds = median(std::move(passes))};
  for (std::size_t i = 0; i < parts.size(); ++i)
    out.launches.push_back({program.launches()[i].kernel->name, {i}, median(std::move(runs[i]))});
  return out;
}

Result<std::unique_ptr<Device>> open_device() {
  return MetalDevice::create();
}

}  // namespace lily::gpu::metal
