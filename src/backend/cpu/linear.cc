// Memory of the products, packing of rows, and the split of plain products among threads.
#include "backend/cpu/linear.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace lily::cpu {
namespace {

// Rows that a thread packs at a time; so few are not worth a hand-over.
constexpr std::int64_t kPackRows = 8;
constexpr std::int64_t kMostChunkBlocks = 4;
// Measured on two threads, experts_down of 1 / 512 rows: 0.24 / 36 ms with 4, 0.26 / 39 with 8.
constexpr std::int64_t kChunksPerThread = 4;

std::int64_t blocks_of(const QuantMatrix& weight) {
  return static_cast<std::int64_t>(round_up(static_cast<std::size_t>(weight.rows), kBlockRows)) /
         kBlockRows;
}

}  // namespace

std::size_t Linear::packed_bytes(const ModelSpec& spec, std::size_t max_rows) const {
  const auto groups = [](int cols) { return static_cast<std::size_t>(cols) / kQuantGroup; };
  const std::size_t routed = groups(spec.hidden) * group_bytes(true);
  const std::size_t widest =
      groups(std::max({spec.hidden, spec.value_dim(), spec.q_dim()})) * group_bytes(exact_);
  const std::size_t acts =
      groups(spec.n_chosen * spec.expert_width + spec.shared_width) * group_bytes(exact_);
  return max_rows * std::max({routed, widest, acts});
}

Result<void> Linear::prepare(const ModelSpec& spec, int max_rows, const Allocate& allocate) {
  const auto rows = static_cast<std::size_t>(max_rows);
  LILY_TRY(packed_, allocate(packed_bytes(spec, rows), "packed activations"));
  normed_stride_ = static_cast<std::int64_t>(round_up(static_cast<std::size_t>(spec.hidden), 64));
  const auto threads = static_cast<std::size_t>(pool_.size());
  LILY_TRY(normed_, allocate(threads * static_cast<std::size_t>(normed_stride_) * sizeof(float),
                             "normed rows"));
  LILY_TRY(logits_, allocate(rows * static_cast<std::size_t>(spec.n_experts) * sizeof(float),
                             "router logits"));
  return allocate_lists(spec, rows, allocate);
}

Result<void> Linear::allocate_lists(const ModelSpec& spec, std::size_t max_rows,
                                    const Allocate& allocate) {
  const std::size_t slots = max_rows * static_cast<std::size_t>(spec.n_chosen);
  const auto experts = static_cast<std::size_t>(spec.n_experts);
  LILY_TRY(lists_, allocate((4 * slots + experts) * 4 + experts * sizeof(Use), "lists of experts"));
  identity_ = lists_.as<std::int32_t>();
  slots_ = identity_ + slots;
  slot_rows_ = slots_ + slots;
  slot_weights_ = reinterpret_cast<float*>(slot_rows_ + slots);
  cursors_ = reinterpret_cast<std::int32_t*>(slot_weights_ + slots);
  uses_ = reinterpret_cast<Use*>(cursors_ + experts);
  std::iota(identity_, identity_ + slots, 0);
  return {};
}

void Linear::pack_row(const float* x, std::int64_t groups, bool exact, std::byte* to) {
  if (exact)
    kernels_.linear.pack_f32(x, groups, reinterpret_cast<F32Group*>(to));
  else
    kernels_.linear.pack_int8(x, groups, reinterpret_cast<Int8Group*>(to));
}

void Linear::pack(const Rows& rows, const Norm* norm, bool exact, std::byte* to) {
  const std::int64_t groups = rows.cols / kQuantGroup;
  const std::size_t row_bytes = group_bytes(exact) * static_cast<std::size_t>(groups);
  pool_.parallel_for(n_chunks(rows.n, kPackRows), [&](std::int64_t task, int thread) {
    for (auto i = task * kPackRows; i < std::min(rows.n, (task + 1) * kPackRows); ++i) {
      const float* x = rows.x + (rows.pick != nullptr ? rows.pick[i] : i) * rows.cols;
      if (norm != nullptr) {
        float* y = norm->out != nullptr ? norm->out + i * rows.cols
                                        : normed_.as<float>() + thread * normed_stride_;
        kernels_.math.rms_norm(x, norm->weight, y, rows.cols, norm->eps);
        x = y;
      }
      pack_row(x, groups, exact, to + row_bytes * static_cast<std::size_t>(i));
    }
  });
}

LinearJob Linear::job(const QuantMatrix& weight, std::int64_t first_block,
                      std::int64_t n_blocks) const {
  LILY_DCHECK(weight.layout == static_cast<std::uint32_t>(WeightLayout::kInterleaved16));
  const std::int32_t groups = weight.cols / kQuantGroup;
  const std::size_t block_bytes = record_bytes(weight.bits) * static_cast<std::size_t>(groups);
  const std::int64_t columns =
      std::min(weight.rows - kBlockRows * first_block, kBlockRows * n_blocks);
  LinearJob job{};
  job.blocks = static_cast<const std::byte*>(weight.codes) +
               block_bytes * static_cast<std::size_t>(first_block);
  job.n_blocks = n_blocks;
  job.groups = groups;
  job.bits = weight.bits;
  job.n_columns = static_cast<std::int32_t>(columns);
  job.exact = exact_;
  job.x = packed_.address();
  return job;
}

// Small enough that every thread gets several, so that a slow one does not hold up the rest.
std::int64_t Linear::chunk_blocks(std::int64_t total, std::int64_t most) const {
  return std::clamp(total / (kChunksPerThread * pool_.size()), std::int64_t{1}, most);
}

void Linear::run(const Step& step, std::span<const Product> products) {
  std::int64_t total = 0, n_tasks = 0;
  for (const auto& product : products) total += blocks_of(product.weight);
  const std::int64_t chunk = chunk_blocks(total, kMostChunkBlocks);
  for (const auto& product : products) n_tasks += n_chunks(blocks_of(product.weight), chunk);
  pool_.parallel_for(n_tasks, [&](std::int64_t task) {
    const Product* product = products.data();
    for (; task >= n_chunks(blocks_of(product->weight), chunk); ++product) {
      task -= n_chunks(blocks_of(product->weight), chunk);
    }
    const std::int64_t first = task * chunk;
    LinearJob part =
        job(product->weight, first, std::min(chunk, blocks_of(product->weight) - first));
    part.exact = step.exact;
    part.rows = {identity_, identity_, nullptr, step.n};
    part.y = product->y + kBlockRows * first;
    part.y_stride = product->weight.rows;
    part.epilogue = step.epilogue;
    kernels_.linear.multiply(part);
  });
}

void Linear::multiply(const Rows& rows, const Norm* norm, std::span<const Product> products) {
  pack(rows, norm, exact_, packed_.as<std::byte>());
  run({rows.n, exact_, Epilogue::kStore}, products);
}

void Linear::multiply_add(const Rows& rows, const Product& product) {
  pack(rows, nullptr, exact_, packed_.as<std::byte>());
  run({rows.n, exact_, Epilogue::kAdd}, {&product, 1});
}

void Linear::fold(const QuantMatrix& weight, std::uint32_t* sink) {
  const std::int64_t blocks = blocks_of(weight), chunk = chunk_blocks(blocks, kMostChunkBlocks);
  const auto block_bytes =
      static_cast<std::int64_t>(record_bytes(weight.bits)) * (weight.cols / kQuantGroup);
  LILY_CHECK(n_chunks(blocks, chunk) <= kFoldWords);
  pool_.parallel_for(n_chunks(blocks, chunk), [&](std::int64_t task) {
    const LinearJob part = job(weight, task * chunk, std::min(chunk, blocks - task * chunk));
    sink[task] = kernels_.fold(part.blocks, part.n_blocks * block_bytes);
  });
}

float* Linear::route(const RouteArgs& args) {
  const std::int64_t n = args.control->n_rows;
  const Norm norm{.weight = args.norm, .eps = args.eps, .out = args.x};
  pack({args.h, n, args.router.cols}, &norm, true, packed_.as<std::byte>());
  const Product products[] = {{args.router, logits_.as<float>()},
                              {args.shared_gate, args.shared_weight}};
  run({n, true, Epilogue::kStore}, products);
  return logits_.as<float>();
}

}  // namespace lily::cpu
