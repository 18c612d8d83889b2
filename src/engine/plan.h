// Will it fit? Memory worked out from the shape alone, before anything is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "spec/model_spec.h"

namespace lily {

struct PlanRequest {
  std::uint64_t memory_bytes = 0;  // What the machine (or the budget) has in all.
  std::uint64_t weight_bytes = 0;  // Size of the packed weights.
  int context_tokens = 0;          // Wanted; 0: as many as fit, up to what the model declares.
  int chunk_tokens = 512;
  int n_sequences = 1;             // Answers at a time. One of them has room for the whole context; together they have what fits.
  int n_slots = 2;                 // Recurrent states: two of each sequence that passes alternate between, the rest checkpoints.
  std::uint64_t kept_bytes = 0;    // What may be kept for reuse: positions beside those of running answers, as far as they fit.
  std::uint64_t kept_states = 0;   // Of it what may lie outside of the device, in this memory.
  int kv_element_bytes = 2;
  std::uint64_t backend_bytes = 0;  // The backend's own scratch.
};

struct MemoryPlan {
  bool fits = false;
  std::uint64_t weights = 0, state = 0, kv_per_token = 0, kv = 0, scratch = 0, reserve = 0, total = 0;
  std::uint64_t kv_tokens = 0;  // Positions of all sequences together.
  int context_tokens = 0;      // The largest that fits, or what was asked for when that fits.
  std::uint64_t missing = 0;   // When it does not fit: bytes short of one page of context.
  std::string advice;          // When it does not fit: what would help.
};

// reserve: what is left to the system, 1 GiB or a sixteenth of the memory, whichever is more.
MemoryPlan plan_memory(const ModelSpec& spec, const PlanRequest& request);

// Physical memory of this machine in bytes, or the smaller limit of the control groups it runs in.
std::uint64_t machine_memory_bytes();

}  // namespace lily
