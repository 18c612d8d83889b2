// Products of activations with quantised matrices, as the steps need them: packs the rows of a step
// once, splits the blocks of its matrices among the threads and hands jobs to the kernels. What is
// summed in which order is settled in linear_kernels.h, so the split is free to follow speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "backend/cpu/kernels.h"
#include "backend/cpu/thread_pool.h"
#include "backend/ops.h"

namespace lily::cpu {

class Linear {
 public:
  // The three outlive it.
  Linear(const Kernels& kernels, ThreadPool& pool, Activations activations)
      : kernels_(kernels), pool_(pool), exact_(activations == Activations::kF32) {}

  // Memory for passes of up to max_rows rows; a pass allocates nothing.
  using Allocate = std::function<Result<Buffer>(std::size_t bytes, std::string_view what)>;
  Result<void> prepare(const ModelSpec& spec, int max_rows, const Allocate& allocate);

  struct Rows {
    const float* x;  // [.., cols]
    std::int64_t n;
    std::int32_t cols;
    const std::int32_t* pick = nullptr;  // Row i of the product is x's row pick[i]; null: row i
  };
  struct Norm {
    const float* weight;  // [cols]
    float eps;
    float* out = nullptr;  // [n, cols] where the normed rows are wanted too
  };
  struct Product {
    QuantMatrix weight;
    float* y;  // [n, weight.rows]
  };

  // y = x W^T for each product, x as it is or rmsnorm(x).
  void multiply(const Rows& rows, const Norm* norm, std::span<const Product> products);
  // product.y += x W^T
  void multiply_add(const Rows& rows, const Product& product);
  // Always with fp32 activations: args.x = rmsnorm(h), shared_weight [T] = the product with the
  // shared gate, as it is. Returns the router's logits [T, E], valid until the next call.
  float* route(const RouteArgs& args);
  // What a product of one row reads of the weights, in the same jobs, folded into a word a job.
  void fold(const QuantMatrix& weight, std::uint32_t* sink);
  // The steps of these names, whole: experts.cc.
  void experts_up(const ExpertsUpArgs& args);
  void experts_down(const ExpertsDownArgs& args);

 private:
  struct Step {
    std::int64_t n;  // Packed rows
    bool exact;
    Epilogue epilogue;
  };
  struct Use {  // A chosen expert and its stretch of the lists below
    std::int32_t expert, first, n;
  };

  std::size_t group_bytes(bool exact) const { return exact ? sizeof(F32Group) : sizeof(Int8Group); }
  std::size_t packed_bytes(const ModelSpec& spec, std::size_t max_rows) const;
  Result<void> allocate_lists(const ModelSpec& spec, std::size_t max_rows,
                              const Allocate& allocate);
  void pack(const Rows& rows, const Norm* norm, bool exact, std::byte* to);
  void pack_row(const float* x, std::int64_t groups, bool exact, std::byte* to);
  void run(const Step& step, std::span<const Product> products);
  static std::int64_t n_chunks(std::int64_t n, std::int64_t chunk) {
    return (n + chunk - 1) / chunk;
  }
  LinearJob job(const QuantMatrix& weight, std::int64_t first_block, std::int64_t n_blocks) const;
  std::int64_t chunk_blocks(std::int64_t total, std::int64_t most) const;
  void group_by_expert(const std::int32_t* experts, std::int64_t n_slots, int n_chosen,
                       int n_experts);

  const Kernels& kernels_;
  ThreadPool& pool_;
  bool exact_;
  Buffer packed_;  // Int8Group or F32Group [rows, groups]
  Buffer normed_;  // f32 [threads, widest input of a norm]
  Buffer logits_;  // f32 [max_rows, E]
  std::int64_t normed_stride_ = 0;
  Buffer lists_;                      // What the pointers below share
  std::int32_t* identity_ = nullptr;  // [max_rows * K] 0, 1, 2, ...
  // Slots (row * K + choice) grouped by expert, ascending within an expert: slot, its row, its
  // weight. [max_rows * K]
  std::int32_t* slots_ = nullptr;
  std::int32_t* slot_rows_ = nullptr;
  float* slot_weights_ = nullptr;
  std::int32_t* cursors_ = nullptr;  // [E]
  Use* uses_ = nullptr;              // [E], ascending by expert
  std::int64_t n_uses_ = 0;
};

}  // namespace lily::cpu
