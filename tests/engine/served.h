// A scheduler over the pocket checkpoint for tests, and answers as futures.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "engine/scheduler.h"
#include "tests/engine/pocket.h"

namespace lily {

inline EngineOptions served_options(int n_sequences, std::size_t checkpoint_bytes = std::size_t{64} << 20) {
  auto options = pocket_options();
  options.n_sequences = n_sequences;
  options.checkpoint_bytes = checkpoint_bytes;
  return options;
}

struct Served {
  explicit Served(const EngineOptions& options, const SchedulerOptions& how = {})
      : engine(open_or_fail(options)), scheduler(*Scheduler::start(*engine, how)) {}
  explicit Served(int n_sequences = 2, const SchedulerOptions& how = {}) : Served(served_options(n_sequences), how) {}

  std::future<Result<GenerateResult>> submit(GenerateRequest request, std::optional<ServeHandle>* handle = nullptr) {
    auto done = std::make_shared<std::promise<Result<GenerateResult>>>();
    auto out = done->get_future();
    auto taken = scheduler->submit(std::move(request), [done](Result<GenerateResult> result) { done->set_value(std::move(result)); });
    EXPECT_TRUE(taken.has_value()) << taken.error().message;
    if (taken && handle) *handle = *taken;
    return out;
  }
  Result<GenerateResult> answer(GenerateRequest request) { return submit(std::move(request)).get(); }

  std::unique_ptr<Engine> engine;
  std::unique_ptr<Scheduler> scheduler;
};

}  // namespace lily
