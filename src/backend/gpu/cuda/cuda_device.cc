// The parts, put together; replays in order on one stream.
#include "backend/gpu/cuda/cuda_device.h"

#include <fmt/format.h>

#include <utility>

#include "backend/gpu/cuda/open.h"
#include "backend/gpu/cuda/timing.h"

namespace lily::gpu::cuda {
namespace {

std::string description(const Context& context) {
  return fmt::format("{}, compute capability {}.{}, bf16 operands, {:.1f} GB free", context.name(),
                     context.capability() / 10, context.capability() % 10,
                     static_cast<double>(context.free_bytes()) / 1e9);
}

// Of an attribute in kHz; 0 where the driver does not tell it.
double hertz(const Context& context, CUdevice_attribute which) {
  const auto kilohertz = context.attribute(which);
  return kilohertz ? 1e3 * *kilohertz : 0;
}

}  // namespace

CudaDevice::CudaDevice(std::shared_ptr<Context> context, std::shared_ptr<Memory> memory)
    : context_(std::move(context)),
      memory_(std::move(memory)),
      modules_(context_),
      info_{.name = "cuda",
            .description = description(*context_),
            .layout = WeightLayout::kRowMajor,
            .kv_element_bytes = 2,
            .memory_bytes = context_->free_bytes(),
            .clock_hz = hertz(*context_, CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
            .memory_clock_hz = hertz(*context_, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
            .runs_ahead = true} {}

Result<std::unique_ptr<CudaDevice>> CudaDevice::create(UploadProgress on_upload) {
  LILY_TRY(auto context, Context::create());
  LILY_TRY(auto memory, Memory::create(context));
  std::unique_ptr<CudaDevice> device(new CudaDevice(context, std::move(memory)));
  device->on_upload_ = std::move(on_upload);
  const Driver& cu = context->use();
  LILY_RETURN_IF_ERROR(
      cu.check(cu.cuStreamCreate(&device->replays_, CU_STREAM_NON_BLOCKING), "making a stream"));
  return device;
}

CudaDevice::~CudaDevice() {
  const Driver& cu = context_->use();
  if (replays_ != nullptr) cu.cuStreamSynchronize(replays_);
  for (const Replay& replay : in_flight_) cu.cuEventDestroy(replay.done);
  for (const CUevent event : events_) cu.cuEventDestroy(event);
  if (replays_ != nullptr) cu.cuStreamDestroy(replays_);
}

Result<Buffer> CudaDevice::allocate(std::size_t bytes, std::string_view what) {
  return memory_->allocate(bytes, what);
}

Result<Buffer> CudaDevice::adopt(std::span<const std::byte> bytes, std::shared_ptr<void>) {
  return memory_->upload(bytes, "weights", std::exchange(on_upload_, {}));
}

void CudaDevice::write(void* to, std::span<const std::byte> bytes) {
  note(last_ + 1, memory_->write(to, bytes));
}

Result<void> CudaDevice::read(const void* from, std::span<std::byte> bytes) {
  return memory_->read(from, bytes);
}

Result<void> CudaDevice::load(std::span<const Kernel> kernels) {
  return modules_.load(kernels);
}

Result<std::shared_ptr<Device::Recording>> CudaDevice::build(const Program& program) {
  return CudaRecording::build(lower(program, modules_.card()), modules_, context_);
}

Result<ProgramTime> CudaDevice::time(const Program& program, int repeats) {
  return time_program(program, repeats, modules_, context_, replays_);
}

void CudaDevice::note(Ticket ticket, Result<void> result) {
  if (!result) failed_.try_emplace(ticket, std::move(result).error());
}

Result<CUevent> CudaDevice::take_event() {
  if (!events_.empty()) {
    const CUevent event = events_.back();
    events_.pop_back();
    return event;
  }
  const Driver& cu = context_->use();
  CUevent event = nullptr;
  LILY_RETURN_IF_ERROR(
      cu.check(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "making an event"));
  return event;
}

Result<void> CudaDevice::launch(std::shared_ptr<Recording> recording, Ticket ticket) {
  const Driver& cu = context_->use();
  LILY_TRY(const CUevent done, take_event());
  const CUgraphExec graph = static_cast<const CudaRecording&>(*recording).graph();
  in_flight_.push_back({ticket, done, std::move(recording)});
  LILY_RETURN_IF_ERROR(cu.check(cu.cuGraphLaunch(graph, replays_), "launching a pass"));
  return cu.check(cu.cuEventRecord(done, replays_), "launching a pass");
}

void CudaDevice::submit(std::shared_ptr<Recording> recording, Ticket ticket) {
  last_ = ticket;
  note(ticket, launch(std::move(recording), ticket));
}

Result<void> CudaDevice::wait(Ticket ticket) {
  const Driver& cu = context_->use();
  while (!in_flight_.empty() && in_flight_.front().ticket <= ticket) {
    const Replay& replay = in_flight_.front();
    note(replay.ticket, cu.check(cu.cuEventSynchronize(replay.done), "running a pass"));
    events_.push_back(replay.done);
    in_flight_.pop_front();
  }
  if (failed_.empty() || failed_.begin()->first > ticket) return {};
  return std::move(failed_.extract(failed_.begin()).mapped());
}

Result<std::unique_ptr<Device>> open_device(UploadProgress on_upload) {
  return CudaDevice::create(std::move(on_upload));
}

}  // namespace lily::gpu::cuda
