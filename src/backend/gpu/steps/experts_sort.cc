// Launch of experts_sort, or the same by the host, and its scratch.
#include <algorithm>
#include <string>

#include "backend/gpu/device.h"
#include "backend/gpu/kernels/experts_params.h"
#include "backend/gpu/steps/experts.h"
#include "backend/gpu/steps/linear.h"
#include "backend/gpu/steps/matrix.h"
#include "backend/gpu/steps/steps.h"
#include "backend/gpu/steps/tiles.h"

namespace lily::gpu {
namespace {

constexpr int kSmallestBlock = 16;  // Rows of a block, of those that there are.

std::size_t n_slots(const ModelSpec& spec, int max_rows) {
  return times(max_rows, spec.n_chosen);
}
std::size_t n_block_words(const ModelSpec& spec, int max_rows) {
  return times(expert_blocks(max_rows, spec.n_chosen, spec.n_experts, kSmallestBlock), 3);
}

void launch_sort(Recorder& to, const PassControl* control, const std::int32_t* experts,
                 int n_chosen, int n_experts, const SortedExperts& sorted) {
  const ExpertsSortParams params{.control = words_of(control),
                                 .experts = experts,
                                 .slots = sorted.slots,
                                 .blocks = sorted.blocks,
                                 .n_experts = static_cast<unsigned>(n_experts),
                                 .n_chosen = static_cast<unsigned>(n_chosen),
                                 .block_rows = static_cast<unsigned>(sorted.block_rows),
                                 .unused = 0};
  to.launch("experts_sort", params, {static_cast<unsigned>(n_experts)}, 256,
            {range(control), range(experts, times(to.rows_bound(), n_chosen))},
            {sorted.slots_range, sorted.blocks_range});
}

template <typename T>
Result<std::vector<T>> read_from(Device& device, const T* address, std::size_t n) {
  std::vector<T> values(n);
  LILY_RETURN_IF_ERROR(device.read(address, std::as_writable_bytes(std::span(values))));
  return values;
}

// What kernels/experts_sort.cc makes, of the experts that each slot chose.
struct HostSort {
  std::vector<std::uint32_t> slots, blocks;
};
Result<HostSort> sort_on_host(const std::vector<std::int32_t>& chosen, int n_experts,
                              int block_rows) {
  std::vector<std::vector<std::uint32_t>> of_expert(static_cast<std::size_t>(n_experts));
  for (std::uint32_t slot = 0; slot < chosen.size(); ++slot) {
    if (chosen[slot] < 0 || chosen[slot] >= n_experts) {
      return Error{ErrorCode::kDevice, "routing: expert " + std::to_string(chosen[slot]) + " of " +
                                           std::to_string(n_experts)};
    }
    of_expert[static_cast<std::size_t>(chosen[slot])].push_back(slot);
  }
  HostSort sort;
  const auto size = static_cast<std::uint32_t>(block_rows);
  for (std::uint32_t e = 0; e < of_expert.size(); ++e) {
    const auto& slots = of_expert[e];
    for (std::uint32_t i = 0; i < slots.size(); i += size) {
      const auto n = std::min(static_cast<std::uint32_t>(slots.size()) - i, size);
      const auto first = static_cast<std::uint32_t>(sort.slots.size());
      sort.blocks.insert(sort.blocks.end(), {e, first, n});
      sort.slots.insert(sort.slots.end(), slots.begin() + i, slots.begin() + i + n);
    }
  }
  const auto n_blocks = expert_blocks(static_cast<int>(chosen.size()), 1, n_experts, block_rows);
  sort.blocks.resize(times(n_blocks, 3));  // Those left over hold nothing.
  return sort;
}

// Reads the routing, and writes what the kernel would have.
Result<void> sort_routing(Device& device, const PassControl* control, const std::int32_t* experts,
                          int n_chosen, int n_experts, const SortedExperts& sorted) {
  LILY_TRY(const auto n_rows, read_from(device, &control->n_rows, 1));
  LILY_CHECK(n_rows[0] >= 0 && times(n_rows[0], n_chosen) * 4 <= sorted.slots_range.bytes);
  LILY_TRY(const auto chosen, read_from(device, experts, times(n_rows[0], n_chosen)));
  LILY_TRY(const auto sort, sort_on_host(chosen, n_experts, sorted.block_rows));
  device.write(sorted.slots, std::as_bytes(std::span(sort.slots)));
  device.write(sorted.blocks, std::as_bytes(std::span(sort.blocks)));
  return {};
}

}  // namespace

std::size_t experts_sort_scratch_bytes(const ModelSpec& spec, int max_rows) {
  if (max_rows <= kFewRows) return 0;
  return round_up(4 * n_slots(spec, max_rows), kSectionAlign) +
         round_up(4 * n_block_words(spec, max_rows), kSectionAlign);
}

SortedExperts record_experts_sort(Recorder& to, const PassControl* control,
                                  const std::int32_t* experts, int n_chosen, int n_experts) {
  const ModelSpec& spec = to.spec();
  const int rows = to.rows_bound();
  LILY_CHECK(n_chosen <= spec.n_chosen && n_experts <= spec.n_experts);
  SortedExperts sorted{};
  sorted.slots = to.scratch_of<std::uint32_t>("expert slots", n_slots(spec, to.max_rows()));
  sorted.blocks = to.scratch_of<std::uint32_t>("expert blocks", n_block_words(spec, to.max_rows()));
  sorted.block_rows = tile_form(to).block_rows;
  sorted.n_blocks = expert_blocks(rows, n_chosen, n_experts, sorted.block_rows);
  sorted.slots_range = range(sorted.slots, times(rows, n_chosen));
  sorted.blocks_range = range(sorted.blocks, times(sorted.n_blocks, 3));
  if (!to.derive("expert slots", range(experts, times(rows, n_chosen)))) return sorted;
  if (to.mechanisms().route_on_device) {
    launch_sort(to, control, experts, n_chosen, n_experts, sorted);
  } else {
    to.host_step([=](Device& device) {
      return sort_routing(device, control, experts, n_chosen, n_experts, sorted);
    });
  }
  return sorted;
}

}  // namespace lily::gpu
