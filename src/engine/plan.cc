// Arithmetic of the memory plan.
#include "engine/plan.h"

#include <unistd.h>

#include <algorithm>

#include "base/control_group.h"
#include "model/pass.h"
#include "spec/state_sizes.h"

namespace lily {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30;

std::string gigabytes(std::uint64_t bytes) {
  const auto tenths = (bytes + 50'000'000) / 100'000'000;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GB";
}

std::string advice_for(const MemoryPlan& plan, const PlanRequest& request) {
  if (plan.weights + plan.reserve > request.memory_bytes) {
    return "the weights alone need " + gigabytes(plan.weights) + " beside " + gigabytes(plan.reserve) +
           " for the system: a machine with more memory, or a checkpoint with fewer bits per weight";
  }
  return "a shorter --context or a smaller --chunk; closing other programs frees " + gigabytes(plan.missing) + " or more";
}

}  // namespace

MemoryPlan plan_memory(const ModelSpec& spec, const PlanRequest& request) {
  const StateSizes sizes = state_sizes(spec, request.kv_element_bytes);
  MemoryPlan plan;
  plan.weights = request.weight_bytes;
  plan.state = sizes.slot_bytes * static_cast<std::uint64_t>(request.n_slots) + request.kept_states;
  plan.kv_per_token = sizes.kv_bytes_per_token;
  plan.scratch = PassBuffers::bytes(spec, request.chunk_tokens) + request.backend_bytes;
  plan.reserve = std::max(kGiB, request.memory_bytes / 16);
  const std::uint64_t fixed = plan.weights + plan.state + plan.scratch + plan.reserve;
  const int wanted = request.context_tokens > 0 ? request.context_tokens : spec.max_context;
  const std::uint64_t least = request.context_tokens > 0 ? static_cast<std::uint64_t>(wanted) : kKvPageTokens;
  const std::uint64_t left = request.memory_bytes > fixed ? request.memory_bytes - fixed : 0;
  // Without an attention layer a position costs nothing.
  const std::uint64_t room = plan.kv_per_token > 0 ? left / plan.kv_per_token : left > 0 ? static_cast<std::uint64_t>(wanted) : 0;
  plan.fits = room >= least;
  plan.context_tokens = static_cast<int>(std::min<std::uint64_t>(room, static_cast<std::uint64_t>(wanted)));
  if (plan.context_tokens < wanted) plan.context_tokens -= plan.context_tokens % kKvPageTokens;
  const auto context = static_cast<std::uint64_t>(plan.context_tokens);
  const std::uint64_t kept = plan.kv_per_token > 0 ? request.kept_bytes / plan.kv_per_token : 0;
  plan.kv_tokens = std::max(context, std::min(room, context * static_cast<std::uint64_t>(request.n_sequences) + kept));
  plan.kv = plan.kv_per_token * plan.kv_tokens;
  plan.total = fixed + plan.kv;
  if (!plan.fits) {
    plan.missing = fixed + least * plan.kv_per_token - request.memory_bytes;
    plan.advice = advice_for(plan, request);
  }
  return plan;
}

std::uint64_t machine_memory_bytes() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES);
  const auto page = ::sysconf(_SC_PAGESIZE);
  const auto physical = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
  const auto limit = control_group_memory();
  return limit ? std::min(limit, physical) : physical;
}

}  // namespace lily
