// experts_up and experts_down: rows grouped by expert, so that each expert's weights are read once.
#include <algorithm>

#include "backend/cpu/linear.h"

namespace lily::cpu {
namespace {

constexpr std::int64_t kMostUpBlocks = 8;
constexpr std::int64_t kMostDownBlocks = 16;

}  // namespace

// Stable, by counting. Fills slots_, slot_rows_ and uses_.
void Linear::group_by_expert(const std::int32_t* experts, std::int64_t n_slots, int n_chosen,
                             int n_experts) {
  std::fill_n(cursors_, n_experts, 0);
  for (std::int64_t slot = 0; slot < n_slots; ++slot) ++cursors_[experts[slot]];
  std::int32_t first = 0;
  n_uses_ = 0;
  for (std::int32_t e = 0; e < n_experts; ++e) {
    const std::int32_t n = cursors_[e];
    if (n > 0) uses_[n_uses_++] = {e, first, n};
    cursors_[e] = first;
    first += n;
  }
  for (std::int64_t slot = 0; slot < n_slots; ++slot) {
    const std::int32_t at = cursors_[experts[slot]]++;
    slots_[at] = static_cast<std::int32_t>(slot);
    slot_rows_[at] = static_cast<std::int32_t>(slot / n_chosen);
  }
}

// The shared expert, which meets all rows, goes first: its tasks are the longest.
void Linear::experts_up(const ExpertsUpArgs& args) {
  const std::int64_t n = args.control->n_rows;
  group_by_expert(args.experts, n * args.n_chosen, args.n_chosen, args.n_experts);
  pack({args.x, n, args.gate.cols}, nullptr, exact_, packed_.as<std::byte>());

  const std::int64_t width = args.gate.rows / args.n_experts, shared_width = args.shared_gate.rows;
  const std::int64_t blocks = width / kBlockRows, shared_blocks = shared_width / kBlockRows;
  const std::int64_t chunk = chunk_blocks(n_uses_ * blocks + shared_blocks, kMostUpBlocks);
  const std::int64_t per_expert = n_chunks(blocks, chunk),
                     n_shared = n_chunks(shared_blocks, chunk);
  const auto run_part = [&](const QuantMatrix& gate, const QuantMatrix& up, std::int64_t first,
                            std::int64_t n_blocks, const RowList& rows, float* y,
                            std::int64_t stride) {
    LinearJob part = job(gate, first, n_blocks);
    part.second_blocks = job(up, first, n_blocks).blocks;
    part.rows = rows;
    part.y = y;
    part.y_stride = stride;
    part.epilogue = Epilogue::kSiluMul;
    kernels_.linear.multiply(part);
  };
  pool_.parallel_for(n_shared + n_uses_ * per_expert, [&](std::int64_t task) {
    if (task < n_shared) {
      const std::int64_t b = task * chunk;
      run_part(args.shared_gate, args.shared_up, b, std::min(chunk, shared_blocks - b),
               {identity_, identity_, nullptr, n}, args.shared_act + kBlockRows * b, shared_width);
      return;
    }
    const Use& use = uses_[(task - n_shared) / per_expert];
    const std::int64_t b = (task - n_shared) % per_expert * chunk;
    run_part(args.gate, args.up, use.expert * blocks + b, std::min(chunk, blocks - b),
             {slot_rows_ + use.first, slots_ + use.first, nullptr, use.n},
             args.act + kBlockRows * b, width);
  });
}

// A task owns some columns of h and adds the experts to them in ascending order, then the shared
// one.
void Linear::experts_down(const ExpertsDownArgs& args) {
  const std::int64_t n = args.control->n_rows, n_slots = n * args.n_chosen;
  group_by_expert(args.experts, n_slots, args.n_chosen, args.n_experts);
  for (std::int64_t i = 0; i < n_slots; ++i) slot_weights_[i] = args.expert_weights[slots_[i]];
  auto* shared_x = packed_.as<std::byte>(
      static_cast<std::size_t>(n_slots * (args.down.cols / kQuantGroup)) * group_bytes(exact_));
  // In the order of the lists, so that an expert's rows lie one after the other: 1,000s of short
  // rows in no order miss the caches.
  pack({args.act, n_slots, args.down.cols, slots_}, nullptr, exact_, packed_.as<std::byte>());
  pack({args.shared_act, n, args.shared_down.cols}, nullptr, exact_, shared_x);

  const std::int64_t hidden = args.shared_down.rows, blocks = hidden / kBlockRows;
  const std::int64_t chunk = chunk_blocks(blocks, kMostDownBlocks);
  pool_.parallel_for(n_chunks(blocks, chunk), [&](std::int64_t task) {
    const std::int64_t first = task * chunk, n_blocks = std::min(chunk, blocks - first);
    const auto add = [&](LinearJob part, const RowList& rows) {
      part.rows = rows;
      part.y = args.h + kBlockRows * first;
      part.y_stride = hidden;
      part.epilogue = Epilogue::kAddWeighted;
      kernels_.linear.multiply(part);
    };
    for (std::int64_t i = 0; i < n_uses_; ++i) {
      const Use& use = uses_[i];
      LinearJob part = job(args.down, use.expert * blocks + first, n_blocks);
      part.next_blocks =
          (i + 1 < n_uses_ ? job(args.down, uses_[i + 1].expert * blocks + first, n_blocks)
                           : job(args.shared_down, first, n_blocks))
              .blocks;
      add(part, {identity_ + use.first, slot_rows_ + use.first, slot_weights_ + use.first, use.n});
    }
    LinearJob shared = job(args.shared_down, first, n_blocks);
    shared.x = shared_x;
    add(shared, {identity_, identity_, args.shared_weight, n});
  });
}

}  // namespace lily::cpu
