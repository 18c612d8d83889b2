// The memory plan as people and scripts read it, for `info` and `doctor`.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/plan.h"

namespace lily::cli {

// "24G", "24GiB" and "24" GiB are 24 * 2^30 bytes, "24GB" is 24 * 10^9; K, M and T likewise.
// kInvalidArgument otherwise.
Result<std::uint64_t> parse_size(const std::string& text);

// Lines of a table.
std::string plan_table(const MemoryPlan& plan, std::uint64_t memory_bytes);

// One JSON object: fits, weights_bytes, state_bytes, kv_bytes_per_token, context_tokens ...
std::string plan_json(const MemoryPlan& plan, std::uint64_t memory_bytes);

}  // namespace lily::cli
