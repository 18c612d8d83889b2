// The passes of one answer: over the end of the prompt, then over one token after the other. Each
// chooses a token and, on a device that runs ahead, writes it where the next pass reads it: that
// pass is enqueued before the host knows the token, and the host takes tokens one pass behind the
// device.
#pragma once

#include <atomic>
#include <deque>
#include <span>

#include "engine/sampling_buffers.h"
#include "model/forward.h"

namespace lily {

struct DecodeWay {
  bool token_on_device = false;  // Else the host hands each token to the next pass.
  int in_flight = 1;             // Passes at a time: 1 or 2.
};
// What the backend can do and the switches allow.
DecodeWay decode_way(const BackendInfo& info, const Mechanisms& mechanisms);

class AnswerPasses {
 public:
  // What they use stays, and nothing else is enqueued on the backend, as long as they are there.
  AnswerPasses(Backend& backend, Model& model, SamplingBuffers& sampling, DecodeWay way)
      : backend_(backend), model_(model), sampling_(sampling), way_(way) {}
  ~AnswerPasses() { static_cast<void>(drain()); }
  AnswerPasses(const AnswerPasses&) = delete;
  AnswerPasses& operator=(const AnswerPasses&) = delete;

  // The first pass: from the state of slot `state`, which stays as it is; it leaves its own in the
  // other of slots 0 and 1. Pages are reserved for the whole answer.
  struct Begin {
    std::span<const TokenId> tokens;
    int position;
    int state;
    const std::atomic<bool>* cancel;
  };
  Result<void> begin(const Begin& prompt);
  // May the next pass be enqueued now?
  bool can_follow() const;
  Result<void> follow();

  // Waits for the oldest pass in flight.
  struct Taken {
    ChosenToken chosen;
    int state;  // The slot of the state behind it.
  };
  Result<Taken> take();

  // Waits for what is in flight: passes that turned out to be too many. States that take() told of
  // stay as they are.
  Result<void> drain();

  int n_begun() const { return n_begun_; }

 private:
  struct Pass {
    Ticket ticket;
    int block, state;
  };
  Result<void> enqueue(PassRequest request);
  int in_flight() const { return static_cast<int>(passes_.size()); }

  Backend& backend_;
  Model& model_;
  SamplingBuffers& sampling_;
  DecodeWay way_;
  std::deque<Pass> passes_;
  int n_begun_ = 0;
  int next_position_ = 0, last_state_ = 0;  // Behind the pass begun last.
  TokenId last_token_ = -1;                 // Taken last.
};

}  // namespace lily
