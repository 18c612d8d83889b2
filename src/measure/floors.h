// The least that a pass has to move and to compute, step by step and kernel by kernel, from the
// shape alone: every byte that must be read or written, once, and the multiply-adds of the
// products.
#pragma once

#include <optional>
#include <string_view>

#include "spec/model_spec.h"

namespace lily {

struct Floor {
  double bytes = 0, multiply_adds = 0;
};

// One sequence's rows: of a prompt, or one of an answer.
struct PassShape {
  int rows = 1;
  int position = 0;   // Of the first: as many lie in the cache before it.
  int head_rows = 0;  // Rows whose logits are wanted.
  int kv_element_bytes = 2;
};

// project_residual behind attention: its matrix may have another width than that of a delta layer.
inline constexpr std::string_view kAttentionResidual = "project_residual of attention";

// Experts that one of so many rows at least chooses, where every expert is as likely as any other.
double distinct_experts(const ModelSpec& spec, int rows);

// Of one call of a step of ops.h; of one layer, where layers have it. Nothing where the step is
// none of a pass of this kind.
std::optional<Floor> step_floor(const ModelSpec& spec, const PassShape& shape,
                                std::string_view step);
// Of one launch of a kernel (backend/gpu/kernels/list.h) for that step: its part, with what the
// kernels of the step hand to each other. Nothing where the kernel is not known to the step: those
// of mechanisms that are off by default.
std::optional<Floor> kernel_floor(const ModelSpec& spec, const PassShape& shape,
                                  std::string_view step, std::string_view kernel);

}  // namespace lily
