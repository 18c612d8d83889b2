// attention: few rows by parts of the cache that are then merged, many rows by tiles of queries.
#include <bit>

#include "backend/gpu/kernels/attention_params.h"
#include "backend/gpu/steps/segment_blocks.h"
#include "backend/gpu/steps/steps.h"

namespace lily::gpu {
namespace {

constexpr int kParts = 64;        // kAttentionParts of kernels/attention_few.cc.
constexpr int kTileQueries = 32;  // Of kernels/attention_many.cc.

int few_rows(int max_rows) {
  return std::min(max_rows, kFewRows);
}
std::size_t n_partials(const ModelSpec& spec, int max_rows) {
  return times(few_rows(max_rows), spec.n_q_heads * kParts);
}

void record_few(Recorder& to, AttentionParams params, const AttentionArgs& args, const Range& q,
                const Range& gate, const Range& y) {
  const int n_q = args.n_q_heads, n_kv = args.kv.n_kv_heads, group = n_q / n_kv;
  LILY_CHECK(n_q <= to.spec().n_q_heads);
  const std::size_t n = n_partials(to.spec(), to.max_rows());
  params.mixes = to.scratch_of<float>("attention mixes", n * kHeadDim);
  params.sums = to.scratch_of<float>("attention sums", n * 2);
  const auto rows = static_cast<unsigned>(to.rows_bound());
  const Range control = range(args.control), mixes = range(params.mixes, n * kHeadDim),
              sums = range(params.sums, n * 2);
  const int heads = group > 4 ? 8 : 4;  // Queries that share what is read.
  to.launch(
      heads == 8 ? "attention_few_8" : "attention_few_4", params,
      {kParts, static_cast<unsigned>(n_kv) * groups_of(group, heads), rows}, 256,
      {control, q, to.to_end_of_buffer(args.kv.pages), to.to_end_of_buffer(args.kv.page_table)},
      {mixes, sums});
  to.launch("attention_few_merge", params, {static_cast<unsigned>(n_q), rows}, 256,
            {control, mixes, sums, gate}, {y});
}

}  // namespace

std::size_t attention_scratch_bytes(const ModelSpec& spec, int max_rows) {
  return n_partials(spec, max_rows) * (kHeadDim + 2) * sizeof(float);
}

void record_attention(Recorder& to, const AttentionArgs& args) {
  const int n_rows = to.rows_bound(), n_q = args.n_q_heads, n_kv = args.kv.n_kv_heads;
  LILY_CHECK(n_q % n_kv == 0 && n_q / n_kv <= kTileQueries);
  const auto tile_heads = std::bit_ceil(static_cast<unsigned>(n_q / n_kv));
  const AttentionParams params = {.control = words_of(args.control),
                                  .q = args.q,
                                  .q_gate = args.q_gate,
                                  .pages = static_cast<std::uint16_t*>(args.kv.pages),
                                  .page_table = args.kv.page_table,
                                  .y = args.y,
                                  .mixes = nullptr,
                                  .sums = nullptr,
                                  .table_stride = static_cast<unsigned>(args.kv.table_stride),
                                  .n_q_heads = static_cast<unsigned>(n_q),
                                  .n_kv_heads = static_cast<unsigned>(n_kv),
                                  .tile_heads = tile_heads};
  const std::size_t queries = times(n_rows, n_q * kHeadDim);
  const Range q = range(args.q, queries), gate = range(args.q_gate, 2 * queries),
              y = range(args.y, queries);
  if (n_rows <= kFewRows) return record_few(to, params, args, q, gate, y);
  const int tile_rows = kTileQueries / static_cast<int>(tile_heads);
  to.launch(to.mechanisms().matrix_units ? "attention_many" : "attention_many_plain", params,
            {blocks_bound(n_rows, tile_rows), static_cast<unsigned>(n_kv)}, 128,
            {range(args.control), q, gate, to.to_end_of_buffer(args.kv.pages),
             to.to_end_of_buffer(args.kv.page_table)},
            {y});
}

}  // namespace lily::gpu
