// attention_prepare as one launch, or as three that hand normed heads on; passes of one row leave
// it to attention.
#include "backend/gpu/kernels/attention_prepare_params.h"
#include "backend/gpu/steps/segment_blocks.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {
namespace {

std::size_t n_keys(const ModelSpec& spec, int max_rows) {
  return times(max_rows, spec.n_kv_heads * kHeadDim);
}

struct PrepareRanges {
  Range control, q_gate, k, v, q_norm, k_norm, frequencies, table, pages, q, keys;
};
PrepareRanges ranges_of(const Recorder& to, const AttentionPrepareArgs& args, const float* keys) {
  const int n_rows = to.rows_bound();
  const std::size_t queries = times(n_rows, args.n_q_heads * kHeadDim),
                    of_kv = times(n_rows, args.kv.n_kv_heads * kHeadDim);
  return {.control = range(args.control),
          .q_gate = range(args.q_gate, 2 * queries),
          .k = range(args.k, of_kv),
          .v = range(args.v, of_kv),
          .q_norm = range(args.q_norm, kHeadDim),
          .k_norm = range(args.k_norm, kHeadDim),
          .frequencies = range(args.rope_frequencies, kRotaryDims / 2),
          .table = to.to_end_of_buffer(args.kv.page_table),
          .pages = to.to_end_of_buffer(args.kv.pages),
          .q = range(args.q, queries),
          .keys = range(keys, of_kv)};
}

AttentionPrepareParams params_of(const AttentionPrepareArgs& args, float* keys) {
  return {.control = words_of(args.control),
          .q_gate = args.q_gate,
          .k = args.k,
          .v = args.v,
          .q_norm = args.q_norm,
          .k_norm = args.k_norm,
          .frequencies = reinterpret_cast<const std::uint32_t*>(args.rope_frequencies),
          .pages = static_cast<std::uint16_t*>(args.kv.pages),
          .page_table = args.kv.page_table,
          .q = args.q,
          .keys = keys,
          .table_stride = static_cast<unsigned>(args.kv.table_stride),
          .n_q_heads = static_cast<unsigned>(args.n_q_heads),
          .n_kv_heads = static_cast<unsigned>(args.kv.n_kv_heads),
          .rope_magnitude = args.rope_magnitude,
          .eps = args.eps,
          .unused = 0};
}

void record_apart(Recorder& to, const AttentionPrepareArgs& args) {
  LILY_CHECK(args.kv.n_kv_heads <= to.spec().n_kv_heads);
  auto* const keys = to.scratch_of<float>("normed keys", n_keys(to.spec(), to.max_rows()));
  const auto params = params_of(args, keys);
  const auto r = ranges_of(to, args, keys);
  const auto rows = static_cast<unsigned>(to.rows_bound());
  const unsigned query_key = groups_of(args.n_q_heads + args.kv.n_kv_heads, 4);
  to.launch("query_key_norm", params, {query_key, rows}, 128,
            {r.control, r.q_gate, r.k, r.q_norm, r.k_norm}, {r.q, r.keys});
  to.launch("query_key_rope", params, {query_key, rows}, 128,
            {r.control, r.frequencies, r.q, r.keys}, {r.q, r.keys});
  to.launch("kv_append", params, {groups_of(2 * args.kv.n_kv_heads, 4), rows}, 128,
            {r.control, r.keys, r.v, r.table}, {r.pages});
}

}  // namespace

std::size_t attention_prepare_scratch_bytes(const ModelSpec& spec, int max_rows) {
  return round_up(4 * n_keys(spec, max_rows), kSectionAlign);
}

bool attention_prepares(const Recorder& to) {
  return to.rows_bound() == 1 && to.mechanisms().fused_query_key;
}

void record_attention_prepare(Recorder& to, const AttentionPrepareArgs& args) {
  if (!to.mechanisms().fused_query_key) return record_apart(to, args);
  const auto r = ranges_of(to, args, nullptr);
  const int heads = args.n_q_heads + 2 * args.kv.n_kv_heads;
  to.launch("attention_prepare", params_of(args, nullptr),
            {groups_of(heads, 4), static_cast<unsigned>(to.rows_bound())}, 128,
            {r.control, r.q_gate, r.k, r.v, r.q_norm, r.k_norm, r.frequencies, r.table},
            {r.pages, r.q});
}

}  // namespace lily::gpu
