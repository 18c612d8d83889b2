// Launch of experts_sort, and its scratch.
#include "backend/gpu/kernels/experts_params.h"
#include "backend/gpu/steps/experts.h"
#include "backend/gpu/steps/linear.h"
#include "backend/gpu/steps/matrix.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {
namespace {

std::size_t n_slots(const ModelSpec& spec, int max_rows) {
  return times(max_rows, spec.n_chosen);
}
std::size_t n_block_words(const ModelSpec& spec, int max_rows) {
  return times(expert_blocks(max_rows, spec.n_chosen, spec.n_experts), 3);
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
  sorted.n_blocks = expert_blocks(rows, n_chosen, n_experts);
  sorted.slots_range = range(sorted.slots, times(rows, n_chosen));
  sorted.blocks_range = range(sorted.blocks, times(sorted.n_blocks, 3));
  const ExpertsSortParams params{.control = words_of(control),
                                 .experts = experts,
                                 .slots = sorted.slots,
                                 .blocks = sorted.blocks,
                                 .n_experts = static_cast<unsigned>(n_experts),
                                 .n_chosen = static_cast<unsigned>(n_chosen)};
  to.launch("experts_sort", params, {static_cast<unsigned>(n_experts)}, 256,
            {range(control), range(experts, times(rows, n_chosen))},
            {sorted.slots_range, sorted.blocks_range});
  return sorted;
}

}  // namespace lily::gpu
