// Replays under way: each a command buffer, in order, and how the host learns what became of it.
//
// A pass signals its ticket on an event that the host waits for. A pass that failed signals
// nothing, so the status of its command buffer is looked at too, and every wait has an end.
#pragma once

#include <deque>
#include <map>
#include <memory>

#include "backend/gpu/metal/recording.h"

namespace lily::gpu::metal {

class Queue {
 public:
  // Without an answer for so long, a pass counts as lost, and with it the queue.
  static Result<std::unique_ptr<Queue>> create(std::shared_ptr<Memory> memory,
                                               std::uint64_t answer_limit_ms);
  // Waits for what is under way, not for what is lost: that keeps for good what it may yet use.
  ~Queue();

  void submit(std::shared_ptr<const MetalRecording> recording, Ticket ticket);
  Result<void> wait(Ticket ticket);
  // A replay of its own, waited for: seconds by the GPU's clock.
  Result<double> time(std::shared_ptr<const MetalRecording> recording);

 private:
  struct Replay {
    Ticket ticket;
    CommandBuffer commands;
    std::shared_ptr<const MetalRecording> recording;
    // Signalled: its results are there, Metal has not said yet that it ended well.
    enum class State { kUnderWay, kSignalled, kEnded } state = State::kUnderWay;
  };
  Queue(std::shared_ptr<Memory> memory, CommandQueue queue, SharedEvent event, Ref fence,
        std::uint64_t answer_limit_ms);

  Result<CommandBuffer> encode(const MetalRecording& recording) const;
  // Looks at the status; keeps the error.
  void look(Replay& replay);
  // Waits until it is under way no more.
  void settle(Replay& replay);
  void lose(Replay& replay);
  void drop_ended();
  // Sees the failure of a pass under way no later than this.
  static constexpr std::uint64_t kLookMs = 20;
  // Fewer than the 64 command buffers that a queue hands out before it blocks.
  static constexpr std::size_t kMaxUnderWay = 32;

  std::shared_ptr<Memory> memory_;  // Its residency set is the queue's.
  CommandQueue queue_;
  SharedEvent event_;
  Ref fence_;  // Passes one: each waits for the one before. Untracked memory has no other order.
  std::uint64_t answer_limit_ms_;
  std::deque<Replay> under_way_;
  std::map<Ticket, Error> failures_;  // Not yet told.
  bool lost_ = false;
};

}  // namespace lily::gpu::metal
