// Answers that run side by side on one engine: which of them a pass is for, where their states and pages lie, what is kept of them. A
// pass either reads a chunk of one prompt or computes a token for many answers; the two take turns. One thread calls.
//
// On a CPU rows of a chunk and of answers could share a pass, with the same bits; on a GPU they could not (docs/NUMERICS.md: few rows and many
// go different ways), and a chunk is long beside a step either way.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/answer.h"
#include "engine/answer_passes.h"
#include "engine/checkpoints.h"
#include "engine/scheduler.h"

namespace lily {

struct ServingOptions {
  int every_tokens = 2048;  // SchedulerOptions::checkpoint_every_tokens
  Path state_dir = {};
};

// A request on its way through the scheduler.
struct Job {
  GenerateRequest request;
  Scheduler::OnDone on_done;
  std::shared_ptr<std::atomic<bool>> cancel;  // What request.cancel points to.
};

class Serving {
 public:
  // A request that came to its end, and is to be told.
  struct Ended {
    Scheduler::OnDone on_done;
    Result<GenerateResult> result;
  };

  Serving(Engine::Impl& engine, const ServingOptions& options);
  ~Serving();
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

  // Whether one more could begin now.
  bool has_room(const GenerateRequest& request) const;
  bool idle() const { return running_.empty(); }
  void admit(Job job);
  // Ends a request that was never admitted.
  Ended decline(Job job);
  void cancel_all();
  // One pass: a chunk of a prompt, or a token of each answer. What ended.
  std::vector<Ended> step();

  // All but what waits.
  SchedulerStats stats() const;

 private:
  struct Running;
  class PassCount;
  using Clock = std::chrono::steady_clock;

  // Positions that an answer gets at a time; between two such grants its passes follow each other without the host.
  static constexpr int kPositionsAhead = 256;
  static double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

  // Prompts.
  Running* next_prompt();
  bool waits_for_another(const Running& one) const;
  void read_chunk(Running& one, bool beside_answers);
  Result<void> begin(Running& one);
  Result<void> compute_chunk(Running& one, bool beside_answers);
  Result<void> compute_part(Running& one, const PassPart& part);
  int chunk_rows(bool beside_answers) const;
  Result<void> keep(Running& one);

  // Answers.
  void answer_step();
  std::vector<Running*> next_answers();
  Result<void> begin_passes();
  bool may_follow() const;
  void write_masks();
  void take();
  Result<void> take_token(Running& one, const AnswerPasses::Taken& taken);
  void settle();
  void fail_passes(const Error& error);

  // Pages.
  bool make_room(Running& one, int n_positions);
  void put_aside(Running& one);
  void bring_back();

  // Ends.
  void cancel(Running& one);
  void fail(Running& one, Error error);
  void retire();
  void leave(Running& one);
  Ended last_words(Running& one);
  void count(const Result<GenerateResult>& result);

  Engine::Impl& engine_;
  const ServingOptions options_;
  Checkpoints checkpoints_;
  std::vector<int> free_sequences_;
  std::vector<std::unique_ptr<Running>> running_;  // As they were admitted.
  std::unique_ptr<AnswerPasses> passes_;
  std::vector<Running*> in_passes_;  // Whose rows they have.
  std::vector<std::uint32_t> mask_;  // A bit per token.
  std::vector<Ended> ended_;
  std::uint64_t steps_ = 0;
  double prompts_owe_seconds_ = 0;   // What reading prompts took of the time of running answers and was not given back yet.
  double rows_per_second_ = 0;       // Of the chunk read last.
  SchedulerStats stats_;
};

}  // namespace lily
