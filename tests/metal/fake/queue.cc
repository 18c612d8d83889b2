// Running command buffers: the emulator is the GPU.
#include <chrono>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "tests/metal/fake/commands.h"
#include "tests/metal/fake/machine.h"

namespace lily::fake_metal {
namespace {

void sleep_ms(int n) {
  std::this_thread::sleep_for(std::chrono::milliseconds(n));
}

// The first address of the GPU's in arguments that no resident buffer holds; 0: none.
std::uintptr_t stray_address(std::span<const std::byte> args,
                             const std::set<FakeBuffer*>& resident) {
  for (std::size_t at = 0; at + 8 <= args.size(); at += 8) {
    std::uintptr_t word = 0;
    std::memcpy(&word, &args[at], sizeof word);
    if (in_gpu_space(word) && !resident.contains(buffer_at(word))) return word;
  }
  return 0;
}

}  // namespace

FakeQueue::FakeQueue() : Object("FakeQueue") {
  auto emulator = gpu::Emulator::create({.observe = machine().observe});
  LILY_CHECK(emulator.has_value());
  emulator_ = *std::move(emulator);
  thread_ = std::thread([this] { serve(); });
}

FakeQueue::~FakeQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (FakeResidencySet* set : sets_) set->release();
}

void FakeQueue::add(FakeResidencySet* set) {
  const std::lock_guard lock(mutex_);
  set->retain();
  sets_.push_back(set);
}

// Nothing but a fence orders what two command buffers do to untracked memory.
void FakeQueue::enqueue(FakeCommandBuffer* buffer) {
  const std::lock_guard lock(mutex_);
  ++enqueued_;
  bool ordered = enqueued_ == 1;
  for (const FakeFence* fence : buffer->waits) ordered |= fence->updated_by + 1 == enqueued_;
  if (!ordered) misuse("no fence orders a command buffer behind the one before");
  for (FakeFence* fence : buffer->updates) fence->updated_by = enqueued_;
  buffer->retain();
  waiting_.push_back(buffer);
  changed_.notify_all();
}

FakeCommandBuffer* FakeQueue::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
  if (waiting_.empty()) return nullptr;
  FakeCommandBuffer* buffer = waiting_.front();
  waiting_.pop_front();
  return buffer;
}

void FakeQueue::serve() {
  while (FakeCommandBuffer* buffer = next()) {
    execute(*buffer);
    buffer->release();
  }
}

void FakeQueue::execute(FakeCommandBuffer& buffer) {
  const auto stopping = [this] {
    const std::lock_guard lock(mutex_);
    return stopping_;
  };
  while (faults().stuck && !stopping()) sleep_ms(1);
  buffer.started();
  sleep_ms(faults().delay_ms);
  count_command_buffer();
  if (fault_due(&Faults::command_buffer))
    return buffer.end(faults().command_error, "Caused GPU Address Fault Error (planted)");
  if (stopping() && faults().stuck) return buffer.end(1, "Discarded");
  std::string error = run(buffer);
  if (!error.empty()) return buffer.end(1, std::move(error));
  const bool lost = fault_due(&Faults::lost_signal);
  for (const Command& command : buffer.commands) {
    if (command.kind == Command::Kind::kSignal && !lost) command.event->signal(command.value);
  }
  sleep_ms(faults().late_status_ms);
  if (fault_due(&Faults::late_error)) return buffer.end(faults().command_error, "Late (planted)");
  buffer.end(0, {});
}

std::string FakeQueue::run(const FakeCommandBuffer& buffer) {
  const auto memory = resident();
  watch(memory, true);
  std::string error;
  for (const Command& command : buffer.commands) {
    if (command.kind == Command::Kind::kBarrier) emulator_->barrier();
    if (command.kind == Command::Kind::kDispatch && error.empty())
      error = dispatch(command, memory);
  }
  if (error.empty() && !emulator_->hazards().empty()) error = emulator_->hazards().front().message;
  emulator_->barrier();
  watch(memory, false);
  for (FakeBuffer* held : memory) held->release();
  return error;
}

std::string FakeQueue::dispatch(const Command& command, const std::set<FakeBuffer*>& resident) {
  if (command.arguments != nullptr && !is_alive(command.arguments)) return "Invalid Resource";
  if (command.arguments != nullptr && !resident.contains(command.arguments))
    return "Caused GPU Address Fault Error: the arguments are not resident";
  const std::span<const std::byte> args =
      command.arguments == nullptr
          ? std::span<const std::byte>(command.bytes)
          : std::span(command.arguments->gpu() + command.offset, command.kernel->args_bytes);
  if (stray_address(args, resident) != 0)
    return "Caused GPU Address Fault Error: '" + std::string(command.kernel->name) +
           "' is given an address where nothing is resident";
  const auto done = emulator_->dispatch(
      {command.kernel,
       args.first(command.kernel->args_bytes),
       {static_cast<std::uint32_t>(command.groups.x), static_cast<std::uint32_t>(command.groups.y),
        static_cast<std::uint32_t>(command.groups.z)},
       static_cast<std::uint32_t>(command.threads.x)});
  return done ? "" : done.error().message;
}

std::set<FakeBuffer*> FakeQueue::resident() const {
  const std::lock_guard lock(mutex_);
  std::set<FakeBuffer*> all;
  for (const FakeResidencySet* set : sets_) all.merge(set->resident());
  return all;
}

// Only with Machine::observe does the emulator take notice.
void FakeQueue::watch(const std::set<FakeBuffer*>& buffers, bool on) {
  if (on) emulator_->clear_records();
  for (const FakeBuffer* buffer : buffers) {
    if (on) {
      emulator_->add_memory(buffer->gpu(), buffer->bytes(), "a buffer");
    } else {
      emulator_->remove_memory(buffer->gpu());
    }
  }
}

const Methods& FakeQueue::methods() const {
  static const Methods table =
      Methods()
          .add("addResidencySet:",
               [](FakeQueue* self, Selector, FakeResidencySet* set) { self->add(set); })
          .add("commandBufferWithUnretainedReferences", [](FakeQueue* self, Selector) -> Object* {
            if (fault_due(&Faults::no_command_buffer)) return nullptr;
            return autoreleased(new FakeCommandBuffer(*self));
          });
  return table;
}

}  // namespace lily::fake_metal
