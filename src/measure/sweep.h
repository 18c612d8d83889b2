// Engines measured in turn at every length, round by round, as child processes: prefill and decode
// apart, Lily like any peer. What an engine fails at is recorded under its name and the rest goes
// on.
#pragma once

#include <atomic>
#include <functional>

#include "measure/sweep_record.h"

namespace lily {

struct SweepProgress {
  std::size_t done = 0, total = 0;
  double seconds_left = 0;  // By what the measurements so far took.
  std::string doing;        // "lily: prefill of 512, round 1"
};

struct SweepHooks {
  const std::atomic<bool>* cancel = nullptr;
  std::function<Result<void>(const SweepRecord&)> save;  // After every measurement.
  std::function<void(const SweepProgress&)> progress;    // Before every measurement.
  std::function<void(const std::string&)> note;          // What failed, and what is left out.
  Path log_folder;                                       // For what engines say on standard error.
};

// Measures what `record` lacks of what its options ask for. kCancelled leaves the record whole.
Result<void> run_sweep(SweepRecord& record, const SweepHooks& hooks);

// One measurement of one engine.
struct SweepStep {
  int round = 0;
  std::size_t engine = 0;  // Of options.engines.
  SweepPoint point;
};
// All of them in order: engines take turns at every point, or one after the other where only one is
// loaded; whoever was first in a round is last in the next.
std::vector<SweepStep> sweep_steps(const SweepOptions& options);

}  // namespace lily
