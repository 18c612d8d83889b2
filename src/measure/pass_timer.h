// Passes of a model for the sake of their time: of given or of random weights, at any depth,
// without prompts.
#pragma once

#include <memory>

#include "backend/ops.h"
#include "base/result.h"
#include "engine/sampling_buffers.h"
#include "measure/floors.h"
#include "model/forward.h"

namespace lily {

class PassTimer {
 public:
  struct Limits {
    int max_rows = 512;
    int max_depth = 4096;
  };
  // `backend` outlives it and has not been prepared. The cache holds numbers that mean nothing.
  static Result<std::unique_ptr<PassTimer>> create(Backend& backend, const LoadedWeights& weights,
                                                   const Limits& limits);

  const ModelSpec& spec() const { return model_.weights.spec; }
  // One row behind `depth` others, whose token is chosen; and as many rows of a new sequence as are
  // given, none of whose logits are wanted. Of `repeats` the median, where steps run at once the fastest, behind a first pass that does
  // not count.
  PassShape decode_shape(int depth) const;
  PassShape prefill_shape(int rows) const;
  Result<PassTimes> time(const PassShape& shape, int repeats);

 private:
  PassTimer(Backend& backend, const Limits& limits) : backend_(backend), limits_(limits) {}
  Result<void> open(const LoadedWeights& weights);
  void fill_cache(int positions);
  Result<PassTimes> time_steps(const PassRequest& request, int repeats);

  Backend& backend_;
  Limits limits_;
  LoadedWeights weights_;
  Model model_;
  SamplingBuffers sampling_;
};

}  // namespace lily
