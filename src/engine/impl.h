// What an open engine consists of. Only the .cc files of this folder include it.
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.h"
#include "model/forward.h"

namespace lily {

// The buffers of one request's sampling, in the backend's memory.
struct SamplingBuffers {
  Buffer control;    // SamplingControl
  Buffer generated;  // int32 [vocab_rows]
  Buffer in_prompt;  // uint8 [vocab_rows]
  Buffer bias_ids;   // int32 [1,024]
  Buffer bias_values;

  static Result<SamplingBuffers> create(Backend& backend, int vocab_rows);
  // Clears the history and writes what a request asks for.
  void begin(Backend& backend, const SamplingParams& params, std::span<const TokenId> prompt);
  void set_draw(Backend& backend, std::uint64_t draw);
  SamplingControl* address() const { return control.as<SamplingControl>(); }

 private:
  SamplingControl host_{};
};

struct Engine::Impl {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Backend> backend;
  GenerationDefaults defaults;
  Model model;
  SamplingBuffers sampling;
  std::unique_ptr<Session> session;

  int context_tokens() const { return model.state.limits().max_positions; }
};

// One pass over `tokens` at `position` of sequence 0, whose live state is slot 0. Reserves pages first.
Result<void> run_pass(Engine::Impl& engine, std::span<const TokenId> tokens, int position, const HeadUse& use,
                      std::span<const std::int32_t> head_rows);

}  // namespace lily
