// The steps that are products with quantised matrices and nothing else: gdn_project,
// attention_project, project_residual and head. The matrices of one step are one list of blocks,
// which linear.cc splits among the threads.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"

namespace lily::cpu {

void CpuBackend::gdn_project(const GdnProjectArgs& args) {
  const Linear::Norm norm{.weight = args.norm, .eps = args.eps};
  const Linear::Product products[] = {
      {args.in_qkv, args.qkv}, {args.in_z, args.z}, {args.in_b, args.b}, {args.in_a, args.a}};
  linear_.multiply({args.h, args.control->n_rows, args.in_qkv.cols}, &norm, products);
}

void CpuBackend::attention_project(const AttentionProjectArgs& args) {
  const Linear::Norm norm{.weight = args.norm, .eps = args.eps};
  const Linear::Product products[] = {
      {args.in_q, args.q_gate}, {args.in_k, args.k}, {args.in_v, args.v}};
  linear_.multiply({args.h, args.control->n_rows, args.in_q.cols}, &norm, products);
}

void CpuBackend::project_residual(const ProjectResidualArgs& args) {
  linear_.multiply_add({args.x, args.control->n_rows, args.weight.cols}, {args.weight, args.h});
}

void CpuBackend::head(const HeadArgs& args) {
  const std::int64_t n = std::min(kHeadBlockRows, args.control->n_head_rows - args.first);
  const std::int32_t cols = args.lm_head.cols;
  const Linear::Norm norm{
      .weight = args.norm,
      .eps = args.eps,
      .out = args.states == nullptr ? nullptr : args.states + std::int64_t{args.first} * cols};
  const Linear::Product product{args.lm_head, args.logits};
  linear_.multiply({args.h, n, cols, args.control->head_rows + args.first}, &norm, {&product, 1});
}

}  // namespace lily::cpu
