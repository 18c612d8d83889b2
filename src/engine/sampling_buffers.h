// How one request draws its tokens, in the backend's memory, as the choose step reads it
// (SamplingControl): once for each control block, since the draw of the next pass is written while a
// pass is under way.
#pragma once

#include <cstdint>
#include <span>

#include "backend/ops.h"
#include "engine/sampling.h"
#include "model/pass.h"

namespace lily {

struct SamplingBuffers {
  Buffer control;    // SamplingControl [PassBuffers::kBlocks]
  Buffer generated;  // int32 [vocab_rows]
  Buffer in_prompt;  // uint8 [vocab_rows]
  Buffer bias_ids;   // int32 [1,024]
  Buffer bias_values;
  Buffer allowed;    // uint32 [vocab_rows / 32]

  static Result<SamplingBuffers> create(Backend& backend, int vocab_rows);
  // Clears the history and writes what a request asks for.
  void begin(Backend& backend, const SamplingParams& params, std::span<const TokenId> prompt);
  // From now on only these tokens, a bit each, may be chosen. No pass that reads them is in flight.
  void set_allowed(Backend& backend, std::span<const std::uint32_t> bits);
  // The next pass of the block draws number `draw`.
  void set_draw(Backend& backend, int block, std::uint64_t draw);
  SamplingControl* address(int block) const { return control.as<SamplingControl>() + block; }

 private:
  SamplingControl host_{};
};

}  // namespace lily
