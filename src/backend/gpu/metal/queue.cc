// Submitting, waiting, and errors of command buffers.
#include "backend/gpu/metal/queue.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <tuple>
#include <utility>

namespace lily::gpu::metal {
namespace {

Error lost_earlier() {
  return {ErrorCode::kDevice, "Metal does not answer any more"};
}

Error failure(const CommandBuffer& commands, const MetalRecording& recording) {
  const Id error = commands.error();
  const bool out_of_memory = error_code(error) == kOutOfMemory;
  return {out_of_memory ? ErrorCode::kNoMemory : ErrorCode::kDevice,
          fmt::format("a pass on Metal failed ({}): {}", recording.what(), error_text(error))};
}

Error no_answer(const MetalRecording& recording, std::uint64_t limit_ms) {
  return {ErrorCode::kDevice, fmt::format("a pass on Metal ({}) gave no answer for {} s",
                                          recording.what(), static_cast<double>(limit_ms) / 1e3)};
}

constexpr std::chrono::microseconds kTimingLook{50};

}  // namespace

Queue::Queue(std::shared_ptr<Memory> memory, CommandQueue queue, SharedEvent event, Ref fence,
             std::uint64_t answer_limit_ms)
    : memory_(std::move(memory)),
      queue_(std::move(queue)),
      event_(std::move(event)),
      fence_(std::move(fence)),
      answer_limit_ms_(answer_limit_ms) {}

Result<std::unique_ptr<Queue>> Queue::create(std::shared_ptr<Memory> memory,
                                             std::uint64_t answer_limit_ms) {
  const SystemDevice& device = memory->device();
  CommandQueue queue = device.queue();
  SharedEvent event = device.event();
  Ref fence = device.fence();
  if (!queue || !event || !fence)
    return Error{ErrorCode::kDevice, "Metal gave no command queue, event or fence"};
  queue.add(memory->residency());
  return std::unique_ptr<Queue>(new Queue(std::move(memory), std::move(queue), std::move(event),
                                          std::move(fence), answer_limit_ms));
}

Queue::~Queue() {
  const Pool pool;
  for (Replay& replay : under_way_) {
    if (!lost_) settle(replay);
  }
  if (!lost_) return;
  { const CommandQueue gone = std::move(queue_); }
  drop_ended();
  // Command buffers hold nothing of what they name, and Metal may go on with them at any time.
  if (!under_way_.empty()) {
    static_cast<void>(new auto(std::make_tuple(std::move(memory_), std::move(event_),
                                               std::move(fence_), std::move(under_way_))));
  }
}

// Behind everything before it.
Result<CommandBuffer> Queue::encode(const MetalRecording& recording) const {
  auto commands = queue_.commands();
  if (!commands) return Error{ErrorCode::kDevice, "Metal gave no command buffer"};
  const Encoder encoder = commands.encoder();
  encoder.wait_for(fence_);
  recording.encode(encoder);
  encoder.update(fence_);
  encoder.end();
  return commands;
}

void Queue::submit(std::shared_ptr<const MetalRecording> recording, Ticket ticket) {
  const Pool pool;
  drop_ended();
  if (under_way_.size() >= kMaxUnderWay) settle(under_way_.front());
  if (lost_) {
    failures_.emplace(ticket, lost_earlier());
    return;
  }
  auto commands = encode(*recording);
  if (!commands) {
    failures_.emplace(ticket, std::move(commands).error());
    return;
  }
  commands->signal(event_, ticket);
  commands->commit();
  under_way_.push_back({ticket, *std::move(commands), std::move(recording)});
}

Result<double> Queue::time(std::shared_ptr<const MetalRecording> recording) {
  const Pool pool;
  if (lost_) return lost_earlier();
  LILY_TRY(auto commands, encode(*recording));
  commands.commit();
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(answer_limit_ms_);
  while (commands.status() < Status::kCompleted) {
    if (std::chrono::steady_clock::now() > end) {
      lost_ = true;
      Error error = no_answer(*recording, answer_limit_ms_);
      under_way_.push_back({0, std::move(commands), std::move(recording), Replay::State::kEnded});
      return error;
    }
    std::this_thread::sleep_for(kTimingLook);
  }
  if (commands.status() == Status::kError) return failure(commands, *recording);
  return commands.seconds();
}

void Queue::lose(Replay& replay) {
  lost_ = true;
  replay.state = Replay::State::kEnded;
  failures_.emplace(replay.ticket, no_answer(*replay.recording, answer_limit_ms_));
}

void Queue::look(Replay& replay) {
  const Status status = replay.commands.status();
  if (replay.state == Replay::State::kEnded || status < Status::kCompleted) return;
  replay.state = Replay::State::kEnded;
  if (status == Status::kError)
    failures_.emplace(replay.ticket, failure(replay.commands, *replay.recording));
}

// The status comes first: a later pass's signal counts for an earlier one that failed, and a signal
// may be lost where the pass was not.
void Queue::settle(Replay& replay) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(answer_limit_ms_);
  for (look(replay); replay.state == Replay::State::kUnderWay; look(replay)) {
    if (event_.wait(replay.ticket, kLookMs)) {
      replay.state = Replay::State::kSignalled;
    } else if (std::chrono::steady_clock::now() > end) {
      lose(replay);
    }
  }
}

// A status may come behind the signal, so an error may be found here only: the next wait tells it.
void Queue::drop_ended() {
  while (!under_way_.empty() && under_way_.front().commands.status() >= Status::kCompleted) {
    look(under_way_.front());
    under_way_.pop_front();
  }
}

Result<void> Queue::wait(Ticket ticket) {
  const Pool pool;
  for (Replay& replay : under_way_) {
    if (replay.ticket <= ticket && !lost_) settle(replay);
  }
  drop_ended();
  const auto behind = failures_.upper_bound(ticket);
  if (behind == failures_.begin()) return {};
  Error first = std::move(failures_.begin()->second);
  failures_.erase(failures_.begin(), behind);
  return first;
}

}  // namespace lily::gpu::metal
