// gdn_scan: a task is one value head of one segment; where heads are too few for the threads, a
// block of its columns.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/row_tiles.h"

namespace lily::cpu {
namespace {

// Up to this many rows the state is swept from memory row by row; from here on a slice of it stays
// in the first-level cache.
constexpr int kFewRows = 4;
// Rows that all slices go over before the next ones: their q and k are read once per slice and
// should stay in the second-level cache.
constexpr std::int64_t kRunRows = 32;

unsigned char* state_at(const StateLayer& state, std::int64_t slot, std::int64_t head) {
  return state.base + slot * state.slot_bytes + state.delta_offset +
         head * static_cast<std::int64_t>(kDeltaDim * kDeltaDim * sizeof(float));
}

ScanTask head_task(const GdnScanArgs& args, const Segment& segment, std::int64_t head,
                   float* scratch) {
  const std::int64_t n_keys = args.n_key_heads, n_values = args.n_value_heads;
  const std::int64_t key = (segment.first_row * n_keys + head / (n_values / n_keys)) * kDeltaDim;
  const std::int64_t gate = segment.first_row * n_values + head;
  const auto state = [&](std::int64_t slot) {
    return slot < 0 ? nullptr : state_at(args.state, slot, head);
  };
  return {.q = args.q + key,
          .k = args.k + key,
          .key_stride = n_keys * kDeltaDim,
          .v = args.v + gate * kDeltaDim,
          .o = args.y + gate * kDeltaDim,
          .value_stride = n_values * kDeltaDim,
          .decay = args.decay + gate,
          .beta = args.beta + gate,
          .gate_stride = n_values,
          .n_rows = segment.n_rows,
          .state_in = reinterpret_cast<const float*>(state(segment.state_in)),
          .state_out = reinterpret_cast<float*>(state(segment.state_out)),
          .snapshots = state(segment.snapshots),
          .slot_bytes = args.state.slot_bytes,
          .scratch = scratch};
}

std::size_t slice_bytes(const Kernels& kernels) {
  return kDeltaDim * sizeof(float) * static_cast<std::size_t>(kernels.gdn.n_scan_columns);
}
std::int64_t column_blocks(const Kernels& kernels) {
  return kDeltaDim / kernels.gdn.n_scan_columns;
}

void scan_block(const Kernels& kernels, ScanTask task, std::int64_t block) {
  const std::int64_t column = block * kernels.gdn.n_scan_columns;
  task.v += column;
  task.o += column;
  task.state_out += column;
  if (task.state_in != nullptr) task.state_in += column;
  if (task.snapshots != nullptr)
    task.snapshots += column * static_cast<std::int64_t>(sizeof(float));
  kernels.gdn.scan_columns(task);
}

// Rows first .. first + kRunRows of a task; those after the first go on from where the state was
// left.
ScanTask run_of(ScanTask task, std::int64_t first) {
  if (first > 0) task.state_in = task.state_out;
  task.q += first * task.key_stride;
  task.k += first * task.key_stride;
  task.v += first * task.value_stride;
  task.o += first * task.value_stride;
  task.decay += first * task.gate_stride;
  task.beta += first * task.gate_stride;
  if (task.snapshots != nullptr) task.snapshots += first * task.slot_bytes;
  task.n_rows = std::min(kRunRows, task.n_rows - first);
  return task;
}

void scan_head(const Kernels& kernels, const ScanTask& task) {
  if (task.n_rows <= kFewRows) return kernels.gdn.scan_rows(task);
  for (std::int64_t first = 0; first < task.n_rows; first += kRunRows) {
    const ScanTask run = run_of(task, first);
    for (std::int64_t block = 0; block < column_blocks(kernels); ++block)
      scan_block(kernels, run, block);
  }
}

void norm_head(const Kernels& kernels, const GdnScanArgs& args, const Segment& segment,
               std::int64_t head) {
  for (std::int64_t row = segment.first_row; row < segment.first_row + segment.n_rows; ++row) {
    const std::int64_t at = (row * args.n_value_heads + head) * kDeltaDim;
    kernels.gdn.gated_norm(args.y + at, args.norm, args.z + at, args.z_sigmoid != 0, args.eps);
  }
}

}  // namespace

void CpuBackend::gdn_scan(const GdnScanArgs& args) {
  const std::int64_t n_heads = args.n_value_heads, n_tasks = args.control->n_segments * n_heads;
  const auto segment_of = [&](std::int64_t task) -> const Segment& {
    return args.control->segments[task / n_heads];
  };
  const auto make = [&](std::int64_t task, int thread) {
    return head_task(args, segment_of(task), task % n_heads,
                     thread_scratch(thread, slice_bytes(kernels_)));
  };
  const bool split = n_tasks < 2 * pool_.size();
  if (split) {
    const std::int64_t n_blocks = column_blocks(kernels_);
    pool_.parallel_for(n_tasks * n_blocks, [&](std::int64_t task, int thread) {
      scan_block(kernels_, make(task / n_blocks, thread), task % n_blocks);
    });
  }
  pool_.parallel_for(n_tasks, [&](std::int64_t task, int thread) {
    if (!split) scan_head(kernels_, make(task, thread));
    norm_head(kernels_, args, segment_of(task), task % n_heads);
  });
}

}  // namespace lily::cpu
