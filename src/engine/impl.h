// What an open engine consists of. Only the .cc files of this folder include it.
#pragma once

#include <memory>
#include <vector>

#include "engine/answer_passes.h"
#include "engine/engine.h"
#include "engine/sampling_buffers.h"
#include "model/forward.h"

namespace lily {

struct Engine::Impl {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Backend> backend;
  GenerationDefaults defaults;
  Model model;
  std::vector<SamplingBuffers> sampling;  // Of each sequence.
  DecodeWay decode_way;
  std::size_t checkpoint_bytes = 0;
  std::uint64_t fingerprint = 0;  // Of the weights and of how they are computed with.
  std::unique_ptr<Session> session;

  int context_tokens() const { return model.state.limits().max_positions; }
};

}  // namespace lily
