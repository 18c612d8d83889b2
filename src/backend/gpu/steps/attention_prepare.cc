// attention_prepare as one launch, whatever the number of rows.
#include "backend/gpu/kernels/attention_prepare_params.h"
#include "backend/gpu/steps/segment_blocks.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {

void record_attention_prepare(Recorder& to, const AttentionPrepareArgs& args) {
  const int n_rows = to.rows_bound(), n_q = args.n_q_heads, n_kv = args.kv.n_kv_heads;
  const AttentionPrepareParams params = {
      .control = words_of(args.control),
      .q_gate = args.q_gate,
      .k = args.k,
      .v = args.v,
      .q_norm = args.q_norm,
      .k_norm = args.k_norm,
      .frequencies = reinterpret_cast<const std::uint32_t*>(args.rope_frequencies),
      .pages = static_cast<std::uint16_t*>(args.kv.pages),
      .page_table = args.kv.page_table,
      .q = args.q,
      .table_stride = static_cast<unsigned>(args.kv.table_stride),
      .n_q_heads = static_cast<unsigned>(n_q),
      .n_kv_heads = static_cast<unsigned>(n_kv),
      .rope_magnitude = args.rope_magnitude,
      .eps = args.eps,
      .unused = 0};
  const std::size_t queries = times(n_rows, n_q * kHeadDim), keys = times(n_rows, n_kv * kHeadDim);
  to.launch(
      "attention_prepare", params, {groups_of(n_q + 2 * n_kv, 4), static_cast<unsigned>(n_rows)},
      128,
      {range(args.control), range(args.q_gate, 2 * queries), range(args.k, keys),
       range(args.v, keys), range(args.q_norm, kHeadDim), range(args.k_norm, kHeadDim),
       range(args.rope_frequencies, kRotaryDims / 2), to.to_end_of_buffer(args.kv.page_table)},
      {to.to_end_of_buffer(args.kv.pages), range(args.q, queries)});
}

}  // namespace lily::gpu
