// The passes of answers side by side: over the ends of their prompts, then over one token of each
// after the other. Each pass chooses a token a row and, on a device that runs ahead, writes it where
// the next pass reads it: that pass is enqueued before the host knows the token, and the host takes
// tokens one pass behind the device.
#pragma once

#include <atomic>
#include <deque>
#include <span>
#include <vector>

#include "engine/sampling_buffers.h"
#include "model/forward.h"

namespace lily {

struct DecodeWay {
  bool token_on_device = false;  // Else the host hands each token to the next pass.
  int in_flight = 1;             // Passes at a time: 1 or 2.
};
// What the backend can do and the switches allow.
DecodeWay decode_way(const Backend& backend);

class AnswerPasses {
 public:
  // One answer of the passes. Pages are reserved for all of it.
  struct Row {
    std::span<const TokenId> tokens;  // Of the first pass.
    int position;                     // Of the first of them.
    int sequence;
    int state;                        // Slot of the state before them: first_slot(sequence) or the other.
    SamplingBuffers* sampling;
    std::uint64_t draw = 0;           // Index in the answer of the token that the first pass chooses.
  };
  // The slots between which the passes of a sequence alternate are its number times two and the one behind.
  static int first_slot(int sequence) { return 2 * sequence; }
  static int other_slot(int slot) { return slot ^ 1; }

  // What they use stays, and nothing else is enqueued on the backend, as long as they are there.
  AnswerPasses(Backend& backend, Model& model, DecodeWay way)
      : backend_(backend), model_(model), way_(way) {}
  ~AnswerPasses() { static_cast<void>(drain()); }
  AnswerPasses(const AnswerPasses&) = delete;
  AnswerPasses& operator=(const AnswerPasses&) = delete;

  // The first pass: the states that it begins with stay as they are, it leaves its own in the other
  // slots.
  Result<void> begin(std::span<const Row> rows, const std::atomic<bool>* cancel);
  // May the next pass be enqueued now?
  bool can_follow() const;
  Result<void> follow();

  // Waits for the oldest pass in flight. What it chose, row by row.
  struct Taken {
    ChosenToken chosen;
    int state;  // The slot of the state behind it.
  };
  Result<std::span<const Taken>> take();

  // Waits for what is in flight: passes that turned out to be too many. States that take() told of
  // stay as they are.
  Result<void> drain();

  int n_begun() const { return n_begun_; }
  int in_flight() const { return static_cast<int>(passes_.size()); }

 private:
  struct Pass {
    Ticket ticket;
    int block;
    bool turned;  // Its states lie in the slots that the first pass did not begin with.
  };
  struct Answer {
    Row row;
    int next_position;  // Behind the pass begun last.
    TokenId token;      // Taken last.
  };
  int state_of(const Answer& answer, bool turned) const;
  Result<void> enqueue(std::span<const PassPart> parts, bool turned, const std::atomic<bool>* cancel);

  Backend& backend_;
  Model& model_;
  DecodeWay way_;
  std::vector<Answer> answers_;
  std::deque<Pass> passes_;
  std::vector<Taken> taken_;
  int n_begun_ = 0;
  bool turned_ = false;  // Of the pass begun last.
};

}  // namespace lily
