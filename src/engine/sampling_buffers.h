// How one request draws its tokens, in the backend's memory, as the choose step reads it
// (SamplingControl).
#pragma once

#include <cstdint>
#include <span>

#include "backend/ops.h"
#include "engine/sampling.h"

namespace lily {

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

}  // namespace lily
